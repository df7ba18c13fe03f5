// SPDX-License-Identifier: Apache-2.0
// A segment in private memory for the tests of this room: control area, channels, and the few steps
// of the node that the tests need (commit a page, retire it, give the slot to another key).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "base/sparse_array.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/key_index.h"
#include "segment/ledger.h"
#include "segment/pin.h"

namespace orlop::segment {

// Zeroed, page aligned, resident where written.
class TestMemory {
 public:
  explicit TestMemory(std::uint64_t bytes) : bytes_(bytes), memory_(bytes + kPageBytes) {}
  std::span<std::byte> span() {
    const auto at = reinterpret_cast<std::uintptr_t>(&memory_[0]);
    return {&memory_[align_up(at, kPageBytes) - at], bytes_};
  }

 private:
  std::uint64_t bytes_;
  SparseArray<std::byte> memory_;
};

inline KeyId test_key(std::uint64_t number) {
  std::uint64_t state = number;
  return {splitmix64(state), splitmix64(state)};
}

class TestChannel {
 public:
  explicit TestChannel(std::uint32_t ledger_cells = 1024, std::uint32_t touch_cells = 64)
      : sizes_{ledger_cells, touch_cells, kMinPartBytes, kMinPartBytes},
        geometry_(*make_channel_geometry(sizes_)),
        memory_(geometry_.total_bytes),
        view_(ChannelView::format(memory_.span(), geometry_, sizes_, ClientId{1})) {}
  const ChannelView& view() const { return view_; }
  std::span<std::byte> span() { return memory_.span(); }

 private:
  ChannelSizes sizes_;
  ChannelGeometry geometry_;
  TestMemory memory_;
  ChannelView view_;
};

// 32 slabs of 64 KiB: 512 slots of 4 KiB, all of them assigned to that class.
class TestSegment {
 public:
  static constexpr NamespaceIndex kNs{1};
  static constexpr std::uint32_t kValueLen = 4096;

  explicit TestSegment(std::uint64_t capacity = 2 * kMiB, std::uint64_t max_value_len = 4 * kKiB)
      : geometry_(*make_geometry(capacity, max_value_len)),
        memory_(geometry_.control_bytes),
        area_(ControlArea::format(memory_.span(), geometry_, SegmentId{77})),
        index_(area_) {}

  const ControlArea& area() const { return area_; }
  const Geometry& geometry() const { return geometry_; }
  KeyIndexWriter& index() { return index_; }
  std::span<std::byte> span() { return memory_.span(); }

  void assign_all_slabs() {
    for (std::uint32_t s = 0; s < geometry_.slab_count; ++s)
      area_.slab(SlabId{s}).slot_pages.store(1);
  }

  // Free -> Prepared -> Committed in the next generation, and into the index.
  void commit(SlotId slot, const KeyId& key, NamespaceIndex ns = kNs) {
    SlotRow& row = area_.slot(slot);
    SlotWord word = row.load_word();
    CHECK(word.state == SlotState::kFree);
    ++word.generation.value;
    word.state = SlotState::kPrepared;
    const SlotFields fields{key, kValueLen, ns, {}, make_put_id(ClientId{1}, slot.value)};
    row.store_fields(fields);
    row.store_word(word);
    row.store_checksums(key.lo, fields_sum(fields, key.lo, word.generation));
    word.state = SlotState::kCommitted;
    row.store_word(word);
    index_.insert(key, ns, slot);
  }

  void set_state(SlotId slot, SlotState state) {
    SlotWord word = area_.slot(slot).load_word();
    word.state = state;
    area_.slot(slot).store_word(word);
  }

  // The node's uninterrupted step for one victim: true = freed, false = pinned and restored.
  bool retire(SlotId slot, std::span<const ChannelView> channels) {
    set_state(slot, SlotState::kRetiring);
    full_fence();
    std::vector<std::uint64_t> victims(slot.value / 64 + 1, 0);
    victims[slot.value / 64] = std::uint64_t{1} << (slot.value % 64);
    const Generation generation = area_.slot(slot).load_word().generation;
    bool held = false;
    std::uint64_t pinned = 0;
    for (const ChannelView& channel : channels) {
      scan_ledger(channel, victims, &pinned,
                  [&](const LedgerCell& cell) { held |= cell.generation == generation; });
    }
    if (held) {
      set_state(slot, SlotState::kCommitted);
      return false;
    }
    SlotRow& row = area_.slot(slot);
    CHECK(index_.erase(row.load_key(), row.load_ns(), slot));
    set_state(slot, SlotState::kFree);
    return true;
  }

  // What the driver does with an idle place.
  void punch_idle_place() {
    const auto place = index_.wants_punch();
    if (!place) return;
    for (std::uint64_t b = 0; b < (std::uint64_t{1} << geometry_.max_index_log2); ++b) {
      IndexBucket& bucket = area_.index_place(*place)[b];
      for (auto& cell : bucket.entry) cell.store(0, std::memory_order_relaxed);
      bucket.overflowed.store(0, std::memory_order_relaxed);
    }
    index_.punched(*place);
  }

 private:
  Geometry geometry_;
  TestMemory memory_;
  ControlArea area_;
  KeyIndexWriter index_;
};

// A reading client: a channel, its pool and one thread's ledger.
class TestReader {
 public:
  explicit TestReader(std::uint32_t ledger_cells = 1024)
      : channel_(ledger_cells),
        pool_(channel_.view().geometry().ledger_chunks),
        ledger_(channel_.view()) {}

  PinResult pin(const ControlArea& area, std::span<const KeyId> keys) {
    if (const std::uint32_t missing =
            ledger_.chunks_missing(static_cast<std::uint32_t>(keys.size()));
        missing > 0) {
      std::vector<std::uint32_t> chunks;
      pool_.take(missing, chunks);
      ledger_.adopt(chunks);
    }
    CHECK(ledger_.reserve(static_cast<std::uint32_t>(keys.size()), cells_));
    out_.assign(keys.size(), PinnedSlot{});
    return pin_prefix(area, channel_.view(), cells_, keys, TestSegment::kNs, out_);
  }
  void release() { release_cells(channel_.view(), cells_); }

  const std::vector<PinnedSlot>& pinned() const { return out_; }
  const std::vector<std::uint32_t>& cells() const { return cells_; }
  const ChannelView& view() const { return channel_.view(); }
  std::uint64_t cell(std::size_t i) const { return view().cells()[cells_[i]].load(); }

 private:
  TestChannel channel_;
  ChunkPool pool_;
  ThreadLedger ledger_;
  std::vector<std::uint32_t> cells_;
  std::vector<PinnedSlot> out_;
};

}  // namespace orlop::segment
