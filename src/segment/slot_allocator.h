// SPDX-License-Identifier: Apache-2.0
// Free slots of the node, by size class: which slab belongs to which class, and runs of adjacent
// free slots for one batch. Private memory of the node (half a byte a slot of assigned slabs);
// rebuilt from the slot table. It decides nothing about states: callers store the words.
//
// A take costs O(log slots) per run it has to use, however fragmented the class is; it allocates
// only when a slab is assigned. Thread: the node's one. All results are deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "segment/control_area.h"
#include "segment/free_runs.h"
#include "segment/max_tree.h"

namespace orlop::segment {

struct ClassStats {
  std::uint32_t slot_pages = 0;  // slot size in 4 KiB units
  std::uint32_t slabs = 0;
  std::uint64_t total_slots = 0;  // of its slabs
  std::uint64_t free_slots = 0;
};

class SlotAllocator {
 public:
  // Reads the slab table; every slot of an assigned slab counts as free until mark_used().
  explicit SlotAllocator(ControlArea area);

  // Takes up to `count` slots of the class for value_len; assigns common slabs as needed (storing
  // the slab's class word first). One run of adjacent slots when the class has one (ascending ids),
  // else few long runs, the longest first. Fragments of the class are used before another slab is
  // assigned. Appends to out; returns how many were taken (0 if a value does not fit into a slab).
  std::uint32_t take(std::uint32_t value_len, std::uint32_t count, std::vector<SlotId>& out);
  // The slot's word is Free (stored by the caller).
  void give_back(SlotId slot);
  // Recovery: marks `count` adjacent slots of an assigned slab as not free. Call for every slot
  // that is not Free, after the constructor read the slab table; long runs cost as little as one
  // slot.
  void mark_used(SlotId first, std::uint32_t count = 1);

  // Slots that take() could give now: free in the class + in common slabs + in wholly free slabs of
  // other classes.
  std::uint64_t available(std::uint32_t value_len) const;
  std::uint64_t total_possible(std::uint32_t value_len) const;  // its slabs + all common slabs
  std::uint64_t assigned_slots() const;  // of all assigned slabs; size of the key index
  std::uint32_t common_slabs() const;
  // Returns wholly free slabs of every class but `keep_pages` to the common pool (at most `limit`),
  // clearing their class word. A wholly free slab is released at once when another class needs it;
  // take() does that by itself.
  std::uint32_t release_free_slabs(std::uint32_t keep_pages, std::uint32_t limit);
  std::vector<ClassStats> classes() const;
  std::uint32_t class_pages_of(SlabId slab) const {
    return slabs_[slab.value].slot_pages;
  }  // 0 = common
  std::uint32_t used_slots_of(SlabId slab) const;
  void validate() const;  // O(n): bitmaps against words

 private:
  static constexpr std::uint32_t kNoSlab = ~std::uint32_t{0};
  struct Slab {
    std::uint32_t slot_pages = 0;  // 0 = common
    std::uint32_t position = 0;    // in its class's `slabs`
    FreeRuns runs;
  };
  struct SizeClass {
    std::uint32_t slot_pages = 0;
    std::uint32_t slots_per_slab = 0;
    std::uint32_t wholly_free = 0;     // slabs
    std::uint64_t free = 0;            // slots
    std::vector<std::uint32_t> slabs;  // in the order of assignment, as far as none was released
    MaxTree longest;                   // longest run, by position in `slabs`
  };

  std::uint32_t pages_for(std::uint64_t value_len) const;  // 0: does not fit into a slab
  SizeClass* find_class(std::uint32_t slot_pages);
  const SizeClass* find_class(std::uint32_t slot_pages) const;
  SizeClass& class_for(std::uint32_t slot_pages);
  void attach_slab(SlabId slab, std::uint32_t slot_pages);
  void release_slab(SlabId slab);
  SlabId first_wholly_free(const SizeClass& size_class) const;
  bool assign_slab(std::uint32_t slot_pages);
  bool reclaim_foreign_slab(std::uint32_t slot_pages);
  std::uint32_t take_run(SizeClass& size_class, std::uint32_t want, std::vector<SlotId>& out);
  void count_change(SizeClass& size_class, const Slab& slab, std::uint32_t free_before);
  void settle();
  void validate_slab(SlabId id) const;

  ControlArea area_;
  std::vector<Slab> slabs_;
  std::vector<SizeClass> classes_;     // by slot_pages, those with slabs only
  std::vector<std::uint32_t> common_;  // stack: lowest first, then recently released first
  std::uint64_t assigned_slots_ = 0;
  std::uint32_t unsettled_ = kNoSlab;    // slab whose runs have grown since its class was told
  std::uint32_t wholly_free_slabs_ = 0;  // of all classes
};

}  // namespace orlop::segment
