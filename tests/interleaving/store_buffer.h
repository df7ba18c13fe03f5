// SPDX-License-Identifier: Apache-2.0
// The store buffer of one x86 core: stores become visible to others later and in order; the core's
// own loads see them at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace orlop::interleaving {

struct BufferedStore {
  void* address = nullptr;
  unsigned bytes = 0;
  std::uint64_t value = 0;
  std::uint64_t step = 0;  // when the fiber executed it
};

class StoreBuffer {
 public:
  // Real cores have 50 to 110 entries; beyond the limit the explorer drains the oldest.
  static constexpr std::size_t kEntries = 64;

  bool full() const { return size() == kEntries; }
  void push(const BufferedStore& store) { entries_.push_back(store); }

  // The youngest own store to exactly this place. Atomics here are never accessed by parts.
  std::optional<std::uint64_t> find(const void* address, unsigned bytes) const {
    for (std::size_t i = entries_.size(); i-- > first_;) {
      if (entries_[i].address != address) continue;
      CHECK(entries_[i].bytes == bytes, "an atomic is accessed with one size");
      return entries_[i].value;
    }
    return std::nullopt;
  }

  std::size_t size() const { return entries_.size() - first_; }
  const BufferedStore& at(std::size_t i) const { return entries_[first_ + i]; }  // 0 = oldest
  BufferedStore pop_oldest() {
    CHECK(size() > 0);
    const BufferedStore oldest = entries_[first_++];
    if (size() == 0) clear();
    return oldest;
  }
  void clear() {
    entries_.clear();
    first_ = 0;
  }

 private:
  std::vector<BufferedStore> entries_;
  std::size_t first_ = 0;  // popped entries before it
};

}  // namespace orlop::interleaving
