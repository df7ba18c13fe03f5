// SPDX-License-Identifier: Apache-2.0
// Which fibers read and write which address: only where two fibers meet does the order matter, so
// only there the explorer branches.
//
// The table grows while schedules run. An exploration is complete only if it did not grow during
// it; the explorer starts again when it did.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace orlop::interleaving {

class SharedAddresses {
 public:
  struct Entry {
    const void* address = nullptr;
    std::uint8_t readers = 0;  // bit per fiber
    std::uint8_t writers = 0;
  };

  SharedAddresses() : table_(kSize) {}

  // Notes the access. The fiber's bit must be one of 8.
  Entry& note_read(const void* address, std::uint8_t fiber) {
    Entry& entry = find(address);
    note(entry, entry.readers, fiber);
    return entry;
  }
  Entry& note_write(const void* address, std::uint8_t fiber) {
    Entry& entry = find(address);
    note(entry, entry.writers, fiber);
    return entry;
  }
  // A load's value depends on others; a store is seen by others.
  static bool written_by_others(const Entry& entry, std::uint8_t fiber) {
    return (entry.writers & ~fiber) != 0;
  }
  static bool used_by_others(const Entry& entry, std::uint8_t fiber) {
    return ((entry.readers | entry.writers) & ~fiber) != 0;
  }
  const Entry& look(const void* address) { return find(address); }

  // Grows with every new meeting of two fibers.
  std::uint64_t meetings() const { return meetings_; }

 private:
  static constexpr std::size_t kSize = 1 << 14;

  static bool met(const Entry& entry) {
    return entry.writers != 0 && std::popcount<std::uint8_t>(entry.readers | entry.writers) > 1;
  }
  void note(Entry& entry, std::uint8_t& mask, std::uint8_t fiber) {
    if ((mask & fiber) != 0) return;
    mask |= fiber;
    if (met(entry)) ++meetings_;
  }
  Entry& find(const void* address) {
    const auto key = reinterpret_cast<std::uintptr_t>(address);
    for (std::size_t at = (key >> 2) * 0x9E3779B97F4A7C15ULL >> 50;; at = (at + 1) % kSize) {
      Entry& entry = table_[at];
      if (entry.address == address) return entry;
      if (entry.address != nullptr) continue;
      CHECK(++used_ < kSize / 2, "programs are small");
      entry.address = address;
      return entry;
    }
  }

  std::vector<Entry> table_;
  std::size_t used_ = 0;
  std::uint64_t meetings_ = 0;
};

}  // namespace orlop::interleaving
