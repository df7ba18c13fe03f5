// SPDX-License-Identifier: Apache-2.0
// Numbers for slot sizes, as the eviction policy wants them. A number is given once and stays.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "eviction/policy.h"
#include "segment/geometry.h"

namespace orlop::protocol {

class SizeClasses {
 public:
  using Number = std::uint16_t;
  static constexpr std::uint32_t kLimit = segment::kMaxSizeClasses;
  static_assert(kLimit <= Policy::kMaxClasses);

  // The number of this slot size (in 4 KiB units), new if need be; nullopt when all are given.
  std::optional<Number> add(std::uint32_t slot_pages) {
    if (const auto known = find(slot_pages)) return known;
    if (pages_.size() == kLimit) return std::nullopt;
    pages_.push_back(slot_pages);
    return static_cast<Number>(pages_.size() - 1);
  }
  std::optional<Number> find(std::uint32_t slot_pages) const {
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      if (pages_[i] == slot_pages) return static_cast<Number>(i);
    }
    return std::nullopt;
  }
  std::uint32_t pages(Number number) const { return pages_[number]; }
  std::uint64_t bytes(Number number) const { return pages_[number] * segment::kMinSlotBytes; }
  Number count() const { return static_cast<Number>(pages_.size()); }

 private:
  std::vector<std::uint32_t> pages_;
};

constexpr std::uint32_t slot_pages_for(std::uint32_t value_len) {
  return value_len == 0 ? 0
                        : (value_len - 1) / static_cast<std::uint32_t>(segment::kMinSlotBytes) + 1;
}

}  // namespace orlop::protocol
