// SPDX-License-Identifier: Apache-2.0
// One bit a slot id, resident only where bits were set.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/sparse_array.h"

namespace orlop::protocol {

class SlotBits {
 public:
  explicit SlotBits(std::uint32_t slot_rows) : words_(slot_rows / 64 + 1) {}
  bool test(SlotId slot) const { return (words_[slot.value >> 6] >> (slot.value & 63) & 1) != 0; }
  void set(SlotId slot) { words_[slot.value >> 6] |= std::uint64_t{1} << (slot.value & 63); }
  void clear(SlotId slot) { words_[slot.value >> 6] &= ~(std::uint64_t{1} << (slot.value & 63)); }
  // For ids that were not checked yet (ledger cells are a client's writing).
  bool test_any(SlotId slot) const { return (slot.value >> 6) < words_.size() && test(slot); }

 private:
  SparseArray<std::uint64_t> words_;
};

}  // namespace orlop::protocol
