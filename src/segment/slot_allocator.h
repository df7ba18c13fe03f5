// SPDX-License-Identifier: Apache-2.0
// Free slots of the node, by size class: which slab belongs to which class, and runs of adjacent
// free slots for one batch. Private memory of the node (one bit a slot); rebuilt from the slot
// table. It decides nothing about states: callers store the words.
//
// Thread: the node's one. All results are deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "segment/control_area.h"

namespace orlop::segment {

struct ClassStats {
  std::uint32_t slot_pages = 0;    // slot size in 4 KiB units
  std::uint32_t slabs = 0;
  std::uint64_t total_slots = 0;   // of its slabs
  std::uint64_t free_slots = 0;
};

class SlotAllocator {
 public:
  explicit SlotAllocator(ControlArea area);

  // Takes up to `count` slots of the class for value_len; assigns common slabs as needed (storing
  // the slab's class word first). One run of adjacent slots when the class has one (ascending ids),
  // else few long runs. Appends to out; returns how many were taken.
  std::uint32_t take(std::uint32_t value_len, std::uint32_t count, std::vector<SlotId>& out);
  // The slot's word is Free (stored by the caller).
  void give_back(SlotId slot);
  // Recovery: marks a slot of an assigned slab as not free. Call for every slot that is not Free,
  // after the constructor read the slab table.
  void mark_used(SlotId slot);

  // Slots that take() could give now: free in the class + in common slabs.
  std::uint64_t available(std::uint32_t value_len) const;
  std::uint64_t total_possible(std::uint32_t value_len) const;  // its slabs + all common slabs
  std::uint64_t assigned_slots() const;  // of all assigned slabs; size of the key index
  std::uint32_t common_slabs() const;
  // Returns wholly free slabs of every class but `keep_pages` to the common pool (at most `limit`),
  // clearing their class word. A wholly free slab is released at once when another class needs it;
  // take() does that by itself.
  std::uint32_t release_free_slabs(std::uint32_t keep_pages, std::uint32_t limit);
  std::vector<ClassStats> classes() const;
  std::uint32_t class_pages_of(SlabId slab) const;  // 0 = common
  std::uint32_t used_slots_of(SlabId slab) const;
  void validate() const;  // O(n): bitmaps against words

 private:
  struct Slab {
    std::uint32_t slot_pages = 0;
    std::uint32_t slots = 0;
    std::uint32_t free = 0;
    std::uint32_t longest_run = 0;  // upper bound; exact after a failed search
    std::vector<std::uint64_t> free_bits;
  };
  bool assign_slab(std::uint32_t slot_pages);
  std::uint32_t take_run(SlabId slab, std::uint32_t want, std::vector<SlotId>& out);
  ControlArea area_;
  std::vector<Slab> slabs_;
};

}  // namespace orlop::segment
