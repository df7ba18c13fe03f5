// SPDX-License-Identifier: Apache-2.0
#include "segment/pin.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::segment {
namespace {

// Keys looked up at a time: the rows of one batch are fetched while those of the batch before are
// read, and with them the buckets of the next. Measured: 32 beats 64 by 7 %, 16 and 128 lose.
constexpr std::uint32_t kBatch = 32;
static_assert(64 % kBatch == 0, "a batch lies in one word of probe()'s bitmap");
constexpr int kIndexRetries = 2;

// Where one look-up of many keys happens: the index as the word says, with the mask ready.
class BatchLookup {
 public:
  BatchLookup(const ControlArea& area, std::span<const KeyId> keys, NamespaceIndex ns)
      : area_(area), keys_(keys), ns_(ns) {
    read_word();
  }

  // Takes the index word again; false if it is the one in use.
  bool index_moved() {
    if (PLANTED(kIndexNotLookedUpAgain)) return false;
    const IndexWord before = word_;
    read_word();
    return word_ != before;
  }

  void prefetch_buckets(std::uint32_t from, std::uint32_t to) const {
    for (std::uint32_t i = from; i < std::min(to, size()); ++i)
      __builtin_prefetch(&buckets_[index_hash(keys_[i], ns_).bucket & mask_]);
  }

  // Hints for the keys [from, from + kBatch), by tag alone, and fetches the rows: of at most two
  // batches at a time. Returns the end of the batch; with stop_at_miss the first key that certainly
  // has no entry.
  std::uint32_t hint(std::uint32_t from, bool stop_at_miss) {
    const std::uint32_t end = std::min(from + kBatch, size());
    for (std::uint32_t i = from; i < end; ++i) {
      if (i + kBatch < size())
        __builtin_prefetch(&buckets_[index_hash(keys_[i + kBatch], ns_).bucket & mask_]);
      const IndexHash hash = index_hash(keys_[i], ns_);
      const std::uint32_t at = hash.bucket & mask_;
      const SlotId found = tag_in(buckets_[at], hash.tag);
      hints_[i % hints_.size()] = found;
      if (found) {
        __builtin_prefetch(&area_.slot(found));
      } else if (buckets_[at].overflowed.load(std::memory_order_acquire) != 0) {
        __builtin_prefetch(&buckets_[(at + 1) & mask_]);
      } else if (stop_at_miss) {
        return i;
      }
    }
    return end;
  }

  // The slot decides; a hint that does not hold falls back to the full probe.
  IndexHit find(std::uint32_t i) const {
    const SlotId hinted = hints_[i % hints_.size()];
    if (hinted) {
      const SlotRow& row = area_.slot(hinted);
      const SlotWord w = row.load_word();
      if (w.readable() && (row.has_identity(keys_[i], ns_) || PLANTED(kIdentityNotRechecked)))
        return {hinted, w};
    }
    return find_slow(i);
  }
  IndexHit find_slow(std::uint32_t i) const { return index_find(area_, word_, keys_[i], ns_); }

  std::uint32_t size() const { return static_cast<std::uint32_t>(keys_.size()); }

 private:
  void read_word() {
    word_ = area_.index_word();
    buckets_ = area_.index_place(word_.place);
    const unsigned log2 = std::min<unsigned>(word_.log2, area_.geometry().max_index_log2);
    mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << log2) - 1);
  }

  SlotId tag_in(const IndexBucket& bucket, std::uint32_t tag) const {
    for (const auto& cell : bucket.entry) {
      const std::uint64_t entry = cell.load(std::memory_order_acquire);
      const SlotId slot{static_cast<std::uint32_t>(entry)};
      if (static_cast<std::uint32_t>(entry >> 32) == tag && area_.valid_slot(slot)) return slot;
    }
    return SlotId{};
  }

  const ControlArea& area_;
  std::span<const KeyId> keys_;
  NamespaceIndex ns_;
  IndexWord word_;
  const IndexBucket* buckets_ = nullptr;
  std::uint32_t mask_ = 0;
  std::array<SlotId, std::size_t{2} * kBatch> hints_;
};

// Steps 1 and 2: cells and out[].slot/generation for the keys from `from` on, to the first miss.
// Returns how far it got. The misses it ends at are certain unless the index has moved.
std::uint32_t write_cells(BatchLookup& lookup, const ChannelView& channel,
                          std::span<const std::uint32_t> cells, std::span<PinnedSlot> out,
                          std::uint32_t from) {
  lookup.prefetch_buckets(from, from + kBatch);
  std::uint32_t hinted = lookup.hint(from, true);
  bool more = hinted == std::min(from + kBatch, lookup.size());
  while (from < hinted) {
    // The next batch's rows are on their way while this batch's are read.
    const std::uint32_t end = hinted;
    if (more && end < lookup.size()) {
      hinted = lookup.hint(end, true);
      more = hinted == std::min(end + kBatch, lookup.size());
    }
    for (; from < end; ++from) {
      const IndexHit hit = lookup.find(from);
      if (!hit.slot) return from;
      out[from].slot = hit.slot;
      out[from].generation = hit.word.generation;
      channel.cells()[cells[from]].store(LedgerCell{hit.slot, hit.word.generation}.pack(),
                                         std::memory_order_relaxed);
    }
  }
  return from;
}

// Step 4 for one key. True: pinned, and out says what.
bool recheck(const ControlArea& area, const KeyId& key, NamespaceIndex ns, PinnedSlot& out) {
  const SlotRow& row = area.slot(out.slot);
  // Acquire: the fields of this generation are visible; the full fence before came after our cell.
  const SlotWord w = row.load_word();
  if (w.generation != out.generation && !PLANTED(kGenerationNotCompared)) return false;
  if (!w.readable() && !PLANTED(kFreePagePinned)) return false;
  if (!row.has_identity(key, ns) && !PLANTED(kIdentityNotRechecked)) return false;
  out.value_len = row.load_value_len();
  out.checksum = row.load_checksum();
  return true;
}

}  // namespace

PinResult pin_prefix(const ControlArea& area, const ChannelView& channel,
                     std::span<const std::uint32_t> cells, std::span<const KeyId> keys,
                     NamespaceIndex ns, std::span<PinnedSlot> out) {
  CHECK(cells.size() >= keys.size() && out.size() >= keys.size());
  BatchLookup lookup(area, keys, ns);
  std::uint32_t found = write_cells(lookup, channel, cells, out, 0);
  for (int retry = 0; retry < kIndexRetries && found < keys.size() && lookup.index_moved();
       ++retry) {
    SOMETIMES(true, "pin looked up again after an index switch");
    found = write_cells(lookup, channel, cells, out, found);
  }
  if (found == 0) return {0, keys.empty() ? PinStop::kAllHit : PinStop::kNotFound};

  full_fence();

  std::uint32_t pinned = 0;
  while (pinned < found && recheck(area, keys[pinned], ns, out[pinned])) ++pinned;
  for (std::uint32_t i = pinned; i < found; ++i)
    channel.cells()[cells[i]].store(0, std::memory_order_release);
  if (pinned < found) {
    SOMETIMES(true, "pin raced with a retirement");
    return {pinned, PinStop::kRaced};
  }
  return {pinned, pinned == keys.size() ? PinStop::kAllHit : PinStop::kNotFound};
}

std::uint32_t probe(const ControlArea& area, std::span<const KeyId> keys, NamespaceIndex ns,
                    std::span<std::uint64_t> bitmap) {
  CHECK(bitmap.size() >= (keys.size() + 63) / 64);
  BatchLookup lookup(area, keys, ns);
  const std::uint32_t size = lookup.size();
  std::uint32_t prefix = size;
  std::fill(bitmap.begin(), bitmap.end(), 0);
  lookup.prefetch_buckets(0, kBatch);
  for (std::uint32_t from = 0; from < size; from += kBatch) {
    const std::uint32_t end = lookup.hint(from, false);
    const std::uint64_t all = (std::uint64_t{1} << (end - from)) - 1;
    std::uint64_t present = 0;
    for (std::uint32_t i = from; i < end; ++i)
      present |= std::uint64_t{lookup.find(i).slot.value != 0} << (i - from);
    for (int retry = 0; retry < kIndexRetries && present != all && lookup.index_moved(); ++retry) {
      for (std::uint64_t missing = all & ~present; missing != 0; missing &= missing - 1) {
        const auto bit = static_cast<std::uint32_t>(std::countr_zero(missing));
        present |= std::uint64_t{lookup.find_slow(from + bit).slot.value != 0} << bit;
      }
    }
    bitmap[from / 64] |= present << (from % 64);
    if (present != all && prefix == size)
      prefix = from + static_cast<std::uint32_t>(std::countr_one(present));
  }
  return prefix;
}

void touch(const ChannelView& channel, std::span<const PinnedSlot> prefix) {
  const std::uint32_t mask = channel.geometry().touch_cells - 1;
  Atomic<std::uint32_t>& tail = channel.header().touch_tail;
  std::uint32_t at = tail.load(std::memory_order_relaxed);
  for (std::size_t i = prefix.size(); i > 0; --i)
    channel.touches()[at++ & mask].store(prefix[i - 1].slot.value, std::memory_order_relaxed);
  // Release: partner of TouchReader::drain.
  tail.store(at, std::memory_order_release);
}

}  // namespace orlop::segment
