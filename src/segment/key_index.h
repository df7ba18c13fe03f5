// SPDX-License-Identifier: Apache-2.0
// The key index: (KeyId, namespace index) -> slot, readable shared memory. An entry is a hint; the
// slot decides.
//
// Bucket = one cache line: 7 entries {tag 32, slot 32} (0 = empty) + one counter of entries whose
// probe passed over this bucket. A probe goes on to the next bucket while the counter is not 0,
// bounded by the number of buckets. Entries never move: insert = counters, then entry; erase =
// entry, then counters. No locks, no tombstones.
//
// Growth: the other place is built in bounded slices while inserts and erases go to both; one store
// of the header's index word switches. Idle places are punched by the driver (wants_punch()).
// Each place is mapped for the largest log2, so a reader with a stale word stays in bounds.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "segment/atomics.h"
#include "segment/control_area.h"

namespace orlop::segment {

struct alignas(64) IndexBucket {
  Atomic<std::uint64_t> entry[kBucketEntries];
  Atomic<std::uint64_t> overflowed;
};
static_assert(sizeof(IndexBucket) == 64);

// Bucket number (before masking) and tag of an identity; mixes KeyId and namespace index, so that
// the same page of several ranks spreads.
struct IndexHash {
  std::uint32_t bucket;
  std::uint32_t tag;
};
inline IndexHash index_hash(const KeyId& key, NamespaceIndex ns) {
  // KeyId is already a good hash; one multiply spreads the namespace over all bits.
  std::uint64_t h = key.lo ^ (std::uint64_t{ns.value} * 0x9E3779B97F4A7C15ULL);
  return {static_cast<std::uint32_t>(h), static_cast<std::uint32_t>((h >> 32) ^ key.hi)};
}

// Readers: clients and the node. Takes an entry only if the slot it names is readable with the
// wanted identity, else goes on.
struct IndexHit {
  SlotId slot;    // 0 = not found
  SlotWord word;  // as read at look-up; re-check after the fence
};
IndexHit index_find(const ControlArea& area, IndexWord word, const KeyId& key, NamespaceIndex ns);
void index_prefetch(const ControlArea& area, IndexWord word, const KeyId& key, NamespaceIndex ns);

// The node's writer. One thread.
//
// During a growth the place an entry has in the old place decides what a step does: buckets before
// next_bucket_ were copied, so inserts and erases there go to both places; what lies behind is
// left to the slice. So no slice can double an entry or bring back an erased one.
class KeyIndexWriter {
 public:
  // After format(): ready, empty. Over an area with a past: call begin_rebuild() first.
  explicit KeyIndexWriter(ControlArea area);

  // The slot's row must hold the identity until erase() (growth reads it back). Never fails: if the
  // place fills up before a growth has finished, the growth is finished here.
  void insert(const KeyId& key, NamespaceIndex ns, SlotId slot);
  // Removes the entry of exactly this slot; false if there is none.
  bool erase(const KeyId& key, NamespaceIndex ns, SlotId slot);

  // Asks for room for `slots` slots in all assigned slabs. If the current place is too small a
  // growth begins (at once finished when the index is empty), or waits for punched().
  void ensure_capacity(std::uint64_t slots);
  bool growing() const { return growing_; }
  // One bounded slice (at most `buckets` source buckets) of a growth; true when it switched.
  bool grow_slice(std::uint32_t buckets);

  // Recovery: builds the idle place from nothing for `slots` slots; then insert() every readable
  // slot; then publish() switches to it. Readers keep using the old place meanwhile.
  void begin_rebuild(std::uint64_t slots);
  void publish_rebuild();

  // Place whose contents are garbage: the driver must punch it before the next growth may begin
  // (punched()). nullopt when nothing is to be done.
  std::optional<unsigned> wants_punch() const;
  void punched(unsigned place);

  std::uint64_t entries() const { return entries_; }
  std::uint64_t buckets() const { return std::uint64_t{1} << word_.log2; }
  // O(n): every readable slot is found, entries match, counters add up. For tests.
  void validate() const;

 private:
  // One of the two places as far as it is used.
  struct Place {
    IndexBucket* bucket = nullptr;
    std::uint32_t mask = 0;
    unsigned log2 = 0;
  };
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  Place place(unsigned number, unsigned log2) const;
  Place current() const { return place(word_.place, word_.log2); }
  Place next() const { return place(word_.place ^ 1U, next_log2_); }
  // Both return the bucket of the entry; erase_from kNowhere if there is none.
  static std::uint32_t insert_into(const Place& p, IndexHash hash, SlotId slot);
  static std::uint32_t erase_from(const Place& p, IndexHash hash, SlotId slot);
  static void clear(const Place& p);
  IndexHash hash_of_row(SlotId slot) const;
  void copy_bucket(const Place& from, std::uint32_t bucket);
  void prefetch_rows(const Place& from, std::uint64_t bucket) const;
  void begin_growth();
  void make_room();
  IndexWord next_word() const;
  void switch_to_next();
  void validate_entries(const Place& p) const;
  void validate_slots() const;

  ControlArea area_;
  IndexWord word_;
  std::uint64_t entries_ = 0;  // of the place that insert() fills
  bool growing_ = false;
  bool rebuilding_ = false;
  bool usable_ = true;             // false: the area has a past and was not rebuilt
  unsigned next_log2_ = 0;         // of the place being built
  std::uint64_t next_bucket_ = 0;  // first source bucket not yet copied
  bool idle_clean_ = true;         // the idle place is all zero
  std::uint64_t wanted_slots_ = 0;
};

}  // namespace orlop::segment
