// SPDX-License-Identifier: Apache-2.0
#include "segment/key_index.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::segment {
namespace {

constexpr std::uint64_t make_entry(std::uint32_t tag, SlotId slot) {
  return (std::uint64_t{tag} << 32) | slot.value;
}
constexpr std::uint32_t tag_of(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry >> 32);
}
constexpr SlotId slot_of(std::uint64_t entry) {
  return SlotId{static_cast<std::uint32_t>(entry)};
}

// The writer is alone: its own loads need no order and its counters no read-modify-write.
void add(Atomic<std::uint64_t>& counter, std::uint64_t delta) {
  counter.store(counter.load(std::memory_order_relaxed) + delta, std::memory_order_release);
}

}  // namespace

IndexHit index_find(const ControlArea& area, IndexWord word, const KeyId& key, NamespaceIndex ns) {
  const IndexHash hash = index_hash(key, ns);
  const unsigned log2 = std::min<unsigned>(word.log2, area.geometry().max_index_log2);
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << log2) - 1);
  const IndexBucket* buckets = area.index_place(word.place);
  for (std::uint32_t step = 0; step <= mask; ++step) {
    const IndexBucket& bucket = buckets[(hash.bucket + step) & mask];
    for (const auto& cell : bucket.entry) {
      // Acquire: partner of the release in insert_into; the row behind it is at least as new.
      const std::uint64_t entry = cell.load(std::memory_order_acquire);
      if (entry == 0 || tag_of(entry) != hash.tag) continue;
      const SlotId slot = slot_of(entry);
      if (!area.valid_slot(slot)) continue;
      const SlotRow& row = area.slot(slot);
      const SlotWord w = row.load_word();
      if (w.readable() && row.has_identity(key, ns)) return {slot, w};
    }
    if (bucket.overflowed.load(std::memory_order_acquire) == 0) break;
  }
  return {};
}

void index_prefetch(const ControlArea& area, IndexWord word, const KeyId& key, NamespaceIndex ns) {
  const unsigned log2 = std::min<unsigned>(word.log2, area.geometry().max_index_log2);
  const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << log2) - 1);
  __builtin_prefetch(&area.index_place(word.place)[index_hash(key, ns).bucket & mask]);
}

KeyIndexWriter::KeyIndexWriter(ControlArea area) : area_(area), word_(area.index_word()) {
  usable_ = word_ == IndexWord{};
  idle_clean_ = usable_;
}

KeyIndexWriter::Place KeyIndexWriter::place(unsigned number, unsigned log2) const {
  DCHECK(log2 <= area_.geometry().max_index_log2);
  return {area_.index_place(number), static_cast<std::uint32_t>((std::uint64_t{1} << log2) - 1),
          log2};
}

std::uint32_t KeyIndexWriter::insert_into(const Place& p, IndexHash hash, SlotId slot) {
  const std::uint32_t home = hash.bucket & p.mask;
  for (std::uint64_t step = 0; step <= p.mask; ++step) {
    const auto at = static_cast<std::uint32_t>((home + step) & p.mask);
    for (auto& cell : p.bucket[at].entry) {
      if (cell.load(std::memory_order_relaxed) != 0) continue;
      // Counters first: whoever sees the entry's key committed must not stop before it.
      for (std::uint64_t passed = 0; passed < step; ++passed)
        if (!PLANTED(kOverflowNotCounted)) add(p.bucket[(home + passed) & p.mask].overflowed, 1);
      cell.store(make_entry(hash.tag, slot), std::memory_order_release);
      return at;
    }
  }
  CHECK(false, "key index full: make_room() comes before");
  return kNowhere;
}

std::uint32_t KeyIndexWriter::erase_from(const Place& p, IndexHash hash, SlotId slot) {
  const std::uint32_t home = hash.bucket & p.mask;
  const std::uint64_t entry = make_entry(hash.tag, slot);
  for (std::uint64_t step = 0; step <= p.mask; ++step) {
    const auto at = static_cast<std::uint32_t>((home + step) & p.mask);
    for (auto& cell : p.bucket[at].entry) {
      if (cell.load(std::memory_order_relaxed) != entry) continue;
      cell.store(0, std::memory_order_release);
      for (std::uint64_t passed = 0; passed < step; ++passed)
        add(p.bucket[(home + passed) & p.mask].overflowed, ~std::uint64_t{0});
      return at;
    }
    if (p.bucket[at].overflowed.load(std::memory_order_relaxed) == 0) break;
  }
  return kNowhere;
}

void KeyIndexWriter::clear(const Place& p) {
  for (std::uint64_t b = 0; b <= p.mask; ++b) {
    for (auto& cell : p.bucket[b].entry) cell.store(0, std::memory_order_relaxed);
    p.bucket[b].overflowed.store(0, std::memory_order_relaxed);
  }
}

IndexHash KeyIndexWriter::hash_of_row(SlotId slot) const {
  const SlotRow& row = area_.slot(slot);
  return index_hash(row.load_key(), row.load_ns());
}

void KeyIndexWriter::insert(const KeyId& key, NamespaceIndex ns, SlotId slot) {
  CHECK(area_.valid_slot(slot));
  CHECK(usable_ || rebuilding_, "an index with a past is rebuilt first");
  make_room();
  const IndexHash hash = index_hash(key, ns);
  ++entries_;
  if (rebuilding_) {
    insert_into(next(), hash, slot);
    return;
  }
  const std::uint32_t at = insert_into(current(), hash, slot);
  if (growing_ && at < next_bucket_ && !PLANTED(kGrowthForgetsNewEntry))
    insert_into(next(), hash, slot);
}

bool KeyIndexWriter::erase(const KeyId& key, NamespaceIndex ns, SlotId slot) {
  const IndexHash hash = index_hash(key, ns);
  if (rebuilding_) {
    // The old place is left alone: its entries are hints, and the slot says what it is.
    if (erase_from(next(), hash, slot) == kNowhere) return false;
    --entries_;
    return true;
  }
  const std::uint32_t at = erase_from(current(), hash, slot);
  if (at == kNowhere) return false;
  --entries_;
  if (growing_ && at < next_bucket_)
    CHECK(erase_from(next(), hash, slot) != kNowhere, "a copied entry is in both places");
  return true;
}

void KeyIndexWriter::ensure_capacity(std::uint64_t slots) {
  wanted_slots_ = std::max(wanted_slots_, slots);
  if (!growing_ && !rebuilding_ && usable_ && idle_clean_) begin_growth();
}

// Starts a growth if the current place is too small for wanted_slots_. Requires a clean idle place.
void KeyIndexWriter::begin_growth() {
  const unsigned wanted = std::min(index_log2_for(wanted_slots_), area_.geometry().max_index_log2);
  if (wanted <= word_.log2) return;
  next_log2_ = wanted;
  next_bucket_ = 0;
  growing_ = true;
  idle_clean_ = false;
  if (PLANTED(kIndexSwitchedTooEarly))
    area_.header().index_word.store(next_word().pack(), std::memory_order_release);
  if (entries_ == 0) switch_to_next();
}

// Keeps one entry in seven free. Only a burst of inserts that outruns the slices gets here; the
// idle place is then cleared by hand, for the driver has not punched it yet.
void KeyIndexWriter::make_room() {
  const Place filled = rebuilding_ ? next() : current();
  if (entries_ < (std::uint64_t{filled.mask} + 1) * (kBucketEntries - 1)) return;
  CHECK(!rebuilding_, "begin_rebuild() was told too few slots");
  SOMETIMES(true, "index growth finished inside insert");
  if (!growing_) {
    CHECK(word_.log2 < area_.geometry().max_index_log2, "more entries than slots");
    wanted_slots_ = std::max(wanted_slots_, buckets() * kSlotsPerBucket + 1);
    if (!idle_clean_)
      clear(place(word_.place ^ 1U,
                  std::min(index_log2_for(wanted_slots_), area_.geometry().max_index_log2)));
    begin_growth();
  }
  while (growing_) grow_slice(~std::uint32_t{0});
}

void KeyIndexWriter::prefetch_rows(const Place& from, std::uint64_t bucket) const {
  if (bucket > from.mask) return;
  for (const auto& cell : from.bucket[bucket].entry) {
    const std::uint64_t entry = cell.load(std::memory_order_relaxed);
    if (entry != 0) __builtin_prefetch(&area_.slot(slot_of(entry)));
  }
}

void KeyIndexWriter::copy_bucket(const Place& from, std::uint32_t bucket) {
  for (const auto& cell : from.bucket[bucket].entry) {
    const std::uint64_t entry = cell.load(std::memory_order_relaxed);
    if (entry == 0) continue;
    const IndexHash hash = hash_of_row(slot_of(entry));
    CHECK(hash.tag == tag_of(entry), "the row of an entry keeps its identity until erase()");
    insert_into(next(), hash, slot_of(entry));
  }
}

bool KeyIndexWriter::grow_slice(std::uint32_t slice) {
  if (!growing_) return false;
  constexpr std::uint64_t kAhead = 8;  // buckets; rows are cold and lie anywhere
  const Place from = current();
  const std::uint64_t end =
      std::min<std::uint64_t>(next_bucket_ + slice, std::uint64_t{from.mask} + 1);
  for (std::uint64_t b = next_bucket_; b < std::min(next_bucket_ + kAhead, end); ++b)
    prefetch_rows(from, b);
  for (; next_bucket_ < end; ++next_bucket_) {
    prefetch_rows(from, next_bucket_ + kAhead);
    copy_bucket(from, static_cast<std::uint32_t>(next_bucket_));
  }
  if (next_bucket_ <= from.mask) return false;
  switch_to_next();
  return true;
}

IndexWord KeyIndexWriter::next_word() const {
  return {word_.epoch + 1, static_cast<std::uint8_t>(word_.place ^ 1),
          static_cast<std::uint8_t>(next_log2_)};
}

void KeyIndexWriter::switch_to_next() {
  word_ = next_word();
  growing_ = false;
  idle_clean_ = false;
  // Release: the place is complete before a reader can be sent to it.
  area_.header().index_word.store(word_.pack(), std::memory_order_release);
}

void KeyIndexWriter::begin_rebuild(std::uint64_t slots) {
  wanted_slots_ = std::max(wanted_slots_, slots);
  next_log2_ = std::min(index_log2_for(slots), area_.geometry().max_index_log2);
  growing_ = false;
  rebuilding_ = true;
  entries_ = 0;
  // A growth may have died in the idle place. Only what will be used is cleared; the inserts fill
  // all of its pages anyway.
  if (!PLANTED(kIndexNotClearedForRebuild)) clear(next());
}

void KeyIndexWriter::publish_rebuild() {
  CHECK(rebuilding_);
  rebuilding_ = false;
  usable_ = true;
  switch_to_next();
}

std::optional<unsigned> KeyIndexWriter::wants_punch() const {
  if (idle_clean_ || growing_ || rebuilding_ || !usable_) return std::nullopt;
  return word_.place ^ 1U;
}

void KeyIndexWriter::punched(unsigned place) {
  if (growing_ || rebuilding_ || place != (word_.place ^ 1U)) return;  // overtaken by make_room()
  idle_clean_ = true;
  if (wanted_slots_ > 0) begin_growth();
}

void KeyIndexWriter::validate() const {
  CHECK(!rebuilding_ && usable_);
  validate_entries(current());
  validate_slots();
}

// Entries name rows that hold their identity, lie behind their home with no gap of counters, and
// the counters are exactly the sum of what passed over them.
void KeyIndexWriter::validate_entries(const Place& p) const {
  std::vector<std::uint64_t> passed(std::uint64_t{p.mask} + 1, 0);
  std::uint64_t found = 0;
  for (std::uint64_t b = 0; b <= p.mask; ++b) {
    for (const auto& cell : p.bucket[b].entry) {
      const std::uint64_t entry = cell.load(std::memory_order_relaxed);
      if (entry == 0) continue;
      ++found;
      CHECK(area_.valid_slot(slot_of(entry)));
      const IndexHash hash = hash_of_row(slot_of(entry));
      CHECK(hash.tag == tag_of(entry));
      for (std::uint32_t at = hash.bucket & p.mask; at != b; at = (at + 1) & p.mask) ++passed[at];
    }
  }
  CHECK(found == entries_);
  for (std::uint64_t b = 0; b <= p.mask; ++b)
    CHECK(p.bucket[b].overflowed.load(std::memory_order_relaxed) == passed[b]);
}

// What the slot table says is readable (or may become so again) has its entry.
void KeyIndexWriter::validate_slots() const {
  const Geometry& g = area_.geometry();
  for (std::uint32_t s = 0; s < g.slab_count; ++s) {
    const std::uint64_t pages = area_.slab(SlabId{s}).slot_pages.load(std::memory_order_relaxed);
    const std::uint32_t slots =
        pages == 0 ? 0 : slots_per_slab(g.slab_bytes, pages * kMinSlotBytes);
    for (std::uint32_t i = 0; i < slots; ++i) {
      const SlotId id = g.slot_id(SlabId{s}, i);
      const SlotWord w = area_.slot(id).load_word();
      if (w.readable())
        CHECK(index_find(area_, word_, area_.slot(id).load_key(), area_.slot(id).load_ns()).slot ==
              id);
    }
  }
}

}  // namespace orlop::segment
