// SPDX-License-Identifier: Apache-2.0
#include "segment/slot_allocator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace orlop::segment {

SlotAllocator::SlotAllocator(ControlArea area) : area_(area), slabs_(area.geometry().slab_count) {
  common_.reserve(slabs_.size());
  for (auto s = static_cast<std::uint32_t>(slabs_.size()); s > 0; --s) {
    if (area_.slab(SlabId{s - 1}).slot_pages.load(std::memory_order_relaxed) == 0)
      common_.push_back(s - 1);
  }
  for (std::uint32_t s = 0; s < slabs_.size(); ++s) {
    const std::uint32_t pages = area_.slab(SlabId{s}).slot_pages.load(std::memory_order_relaxed);
    if (pages != 0) attach_slab(SlabId{s}, pages);
  }
}

std::uint32_t SlotAllocator::pages_for(std::uint64_t value_len) const {
  if (value_len == 0 || value_len > area_.geometry().slab_bytes) return 0;
  return static_cast<std::uint32_t>(slot_bytes(value_len) / kMinSlotBytes);
}

const SlotAllocator::SizeClass* SlotAllocator::find_class(std::uint32_t slot_pages) const {
  const auto it = std::lower_bound(
      classes_.begin(), classes_.end(), slot_pages,
      [](const SizeClass& c, std::uint32_t pages) { return c.slot_pages < pages; });
  return it != classes_.end() && it->slot_pages == slot_pages ? &*it : nullptr;
}

SlotAllocator::SizeClass* SlotAllocator::find_class(std::uint32_t slot_pages) {
  return const_cast<SizeClass*>(std::as_const(*this).find_class(slot_pages));
}

SlotAllocator::SizeClass& SlotAllocator::class_for(std::uint32_t slot_pages) {
  if (SizeClass* found = find_class(slot_pages)) return *found;
  SizeClass fresh;
  fresh.slot_pages = slot_pages;
  fresh.slots_per_slab =
      slots_per_slab(area_.geometry().slab_bytes, std::uint64_t{slot_pages} * kMinSlotBytes);
  CHECK(fresh.slots_per_slab > 0, "class of a slab larger than the slab");
  const auto at = std::lower_bound(
      classes_.begin(), classes_.end(), slot_pages,
      [](const SizeClass& c, std::uint32_t pages) { return c.slot_pages < pages; });
  return *classes_.insert(at, std::move(fresh));
}

// The slab is common and its class word stored; takes up its free slots.
void SlotAllocator::attach_slab(SlabId id, std::uint32_t slot_pages) {
  SizeClass& c = class_for(slot_pages);
  Slab& slab = slabs_[id.value];
  slab.slot_pages = slot_pages;
  slab.position = static_cast<std::uint32_t>(c.slabs.size());
  slab.runs = FreeRuns(c.slots_per_slab);
  c.slabs.push_back(id.value);
  c.longest.set(slab.position, slab.runs.longest());
  c.free += c.slots_per_slab;
  ++c.wholly_free;
  ++wholly_free_slabs_;
  assigned_slots_ += c.slots_per_slab;
}

// A wholly free slab becomes common again.
void SlotAllocator::release_slab(SlabId id) {
  Slab& slab = slabs_[id.value];
  CHECK(slab.slot_pages != 0 && slab.runs.free() == slab.runs.slots());
  SizeClass& c = *find_class(slab.slot_pages);
  area_.slab(id).slot_pages.store(0, std::memory_order_release);
  const auto last = static_cast<std::uint32_t>(c.slabs.size() - 1);
  const std::uint32_t moved = c.slabs[last];
  c.slabs[slab.position] = moved;
  slabs_[moved].position = slab.position;
  c.longest.set(slab.position, slabs_[moved].runs.longest());
  c.longest.set(last, 0);
  c.slabs.pop_back();
  c.free -= c.slots_per_slab;
  --c.wholly_free;
  --wholly_free_slabs_;
  assigned_slots_ -= c.slots_per_slab;
  if (c.slabs.empty()) classes_.erase(classes_.begin() + (&c - classes_.data()));
  slab = Slab{};
  common_.push_back(id.value);
}

SlabId SlotAllocator::first_wholly_free(const SizeClass& c) const {
  for (const std::uint32_t s : c.slabs)
    if (slabs_[s].runs.free() == slabs_[s].runs.slots()) return SlabId{s};
  CHECK(false, "the class counts a wholly free slab");
  return SlabId{};
}

// Makes a slab common that another class does not use; the class with the most of them gives.
bool SlotAllocator::reclaim_foreign_slab(std::uint32_t slot_pages) {
  if (wholly_free_slabs_ == 0) return false;
  const SizeClass* giver = nullptr;
  for (const SizeClass& c : classes_) {
    if (c.slot_pages == slot_pages || c.wholly_free == 0) continue;
    if (giver == nullptr || c.wholly_free > giver->wholly_free) giver = &c;
  }
  if (giver == nullptr) return false;
  release_slab(first_wholly_free(*giver));
  return true;
}

bool SlotAllocator::assign_slab(std::uint32_t slot_pages) {
  if (find_class(slot_pages) == nullptr && classes_.size() >= kMaxSizeClasses) return false;
  if (common_.empty() && !reclaim_foreign_slab(slot_pages)) return false;
  const SlabId id{common_.back()};
  common_.pop_back();
  // The class word first: recovery walks the slots of assigned slabs only.
  area_.slab(id).slot_pages.store(slot_pages, std::memory_order_release);
  attach_slab(id, slot_pages);
  return true;
}

// Brings the class's counts up to date after `slab.runs` changed.
void SlotAllocator::count_change(SizeClass& c, const Slab& slab, std::uint32_t free_before) {
  const std::uint32_t free_now = slab.runs.free(), all = slab.runs.slots();
  c.free += free_now;
  c.free -= free_before;
  if (free_before == all) {
    --c.wholly_free;
    --wholly_free_slabs_;
  }
  if (free_now == all) {
    ++c.wholly_free;
    ++wholly_free_slabs_;
  }
}

// Lets the class know the longest run of the slab that slots were given back to.
void SlotAllocator::settle() {
  if (unsettled_ == kNoSlab) return;
  Slab& slab = slabs_[unsettled_];
  unsettled_ = kNoSlab;
  slab.runs.settle();
  find_class(slab.slot_pages)->longest.set(slab.position, slab.runs.longest());
}

std::uint32_t SlotAllocator::take_run(SizeClass& c, std::uint32_t want, std::vector<SlotId>& out) {
  const std::uint32_t length = std::min(want, c.longest.max());
  const std::uint32_t slab_number = c.slabs[c.longest.first_at_least(length)];
  Slab& slab = slabs_[slab_number];
  const std::uint32_t before = slab.runs.free();
  const std::uint32_t first = slab.runs.find(length);
  slab.runs.take(first, length);
  count_change(c, slab, before);
  c.longest.set(slab.position, slab.runs.longest());
  const std::uint32_t id = area_.geometry().slot_id(SlabId{slab_number}, first).value;
  for (std::uint32_t i = 0; i < length; ++i) out.push_back(SlotId{id + i});
  return length;
}

std::uint32_t SlotAllocator::take(std::uint32_t value_len, std::uint32_t count,
                                  std::vector<SlotId>& out) {
  const std::uint32_t pages = pages_for(value_len);
  if (pages == 0) return 0;
  settle();
  const auto free_slots = [&] {
    const SizeClass* c = find_class(pages);
    return c == nullptr ? 0 : c->free;
  };
  while (free_slots() < count && assign_slab(pages)) {
  }
  SizeClass* c = find_class(pages);
  std::uint32_t taken = 0;
  while (c != nullptr && taken < count && c->free > 0) taken += take_run(*c, count - taken, out);
  return taken;
}

void SlotAllocator::give_back(SlotId slot) {
  const Geometry& g = area_.geometry();
  const SlabId id = g.slab_of(slot);
  Slab& slab = slabs_[id.value];
  CHECK(slab.slot_pages != 0, "slot of a common slab");
  if (unsettled_ != id.value) settle();
  unsettled_ = id.value;
  const std::uint32_t before = slab.runs.free();
  slab.runs.give_back(g.ordinal_of(slot));
  count_change(*find_class(slab.slot_pages), slab, before);
}

void SlotAllocator::mark_used(SlotId first, std::uint32_t count) {
  const Geometry& g = area_.geometry();
  Slab& slab = slabs_[g.slab_of(first).value];
  CHECK(slab.slot_pages != 0, "slot of a common slab");
  settle();
  SizeClass& c = *find_class(slab.slot_pages);
  const std::uint32_t before = slab.runs.free();
  slab.runs.take(g.ordinal_of(first), count);
  count_change(c, slab, before);
  c.longest.set(slab.position, slab.runs.longest());
}

std::uint64_t SlotAllocator::available(std::uint32_t value_len) const {
  const std::uint32_t pages = pages_for(value_len);
  if (pages == 0) return 0;
  const SizeClass* c = find_class(pages);
  if (c == nullptr && classes_.size() >= kMaxSizeClasses) return 0;
  const std::uint64_t per_slab = slots_per_slab(area_.geometry().slab_bytes, value_len);
  const std::uint64_t foreign = wholly_free_slabs_ - (c == nullptr ? 0 : c->wholly_free);
  return (c == nullptr ? 0 : c->free) + (common_.size() + foreign) * per_slab;
}

std::uint64_t SlotAllocator::total_possible(std::uint32_t value_len) const {
  const std::uint32_t pages = pages_for(value_len);
  if (pages == 0) return 0;
  const SizeClass* c = find_class(pages);
  const std::uint64_t per_slab = slots_per_slab(area_.geometry().slab_bytes, value_len);
  return ((c == nullptr ? 0 : c->slabs.size()) + common_.size()) * per_slab;
}

std::uint64_t SlotAllocator::assigned_slots() const {
  return assigned_slots_;
}

std::uint32_t SlotAllocator::common_slabs() const {
  return static_cast<std::uint32_t>(common_.size());
}

std::uint32_t SlotAllocator::release_free_slabs(std::uint32_t keep_pages, std::uint32_t limit) {
  settle();
  std::uint32_t released = 0;
  while (released < limit && reclaim_foreign_slab(keep_pages)) ++released;
  return released;
}

std::vector<ClassStats> SlotAllocator::classes() const {
  std::vector<ClassStats> stats;
  for (const SizeClass& c : classes_) {
    stats.push_back({c.slot_pages, static_cast<std::uint32_t>(c.slabs.size()),
                     std::uint64_t{c.slots_per_slab} * c.slabs.size(), c.free});
  }
  return stats;
}

std::uint32_t SlotAllocator::used_slots_of(SlabId slab) const {
  const FreeRuns& runs = slabs_[slab.value].runs;
  return runs.slots() - runs.free();
}

void SlotAllocator::validate_slab(SlabId id) const {
  const Slab& slab = slabs_[id.value];
  CHECK(slab.slot_pages == area_.slab(id).slot_pages.load(std::memory_order_relaxed));
  for (std::uint32_t i = 0; i < slab.runs.slots(); ++i) {
    const SlotWord word = area_.slot(area_.geometry().slot_id(id, i)).load_word();
    CHECK(slab.runs.is_free(i) == (word.state == SlotState::kFree));
  }
}

void SlotAllocator::validate() const {
  for (std::uint32_t s = 0; s < slabs_.size(); ++s) validate_slab(SlabId{s});
  std::uint64_t assigned = 0, slabs = common_.size();
  for (const SizeClass& c : classes_) {
    std::uint64_t free = 0;
    std::uint32_t wholly_free = 0, longest = 0;
    for (std::uint32_t position = 0; position < c.slabs.size(); ++position) {
      const Slab& slab = slabs_[c.slabs[position]];
      CHECK(slab.position == position && slab.slot_pages == c.slot_pages);
      free += slab.runs.free();
      wholly_free += slab.runs.free() == slab.runs.slots() ? 1 : 0;
      longest = std::max(longest, slab.runs.longest());
    }
    CHECK(free == c.free && wholly_free == c.wholly_free);
    CHECK(unsettled_ != kNoSlab || longest == c.longest.max());
    assigned += std::uint64_t{c.slots_per_slab} * c.slabs.size();
    slabs += c.slabs.size();
  }
  CHECK(assigned == assigned_slots_ && slabs == slabs_.size());
}

}  // namespace orlop::segment
