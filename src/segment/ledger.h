// SPDX-License-Identifier: Apache-2.0
// The pin ledger of a client: cells {slot, generation} in chunks of 64 with a "chunk in use" bitmap.
//
// Ownership rule. A chunk belongs to one thread (or to nobody). A bit is set before its chunk's
// cells and before the fence. Bitmap words change only by atomic read-modify-write. A bit is
// cleared only by the owner of the chunk, after it found all 64 cells 0. Any thread may zero cells
// (release of a pin: a silent store); it never touches the bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "segment/channel.h"
#include "segment/slot_word.h"

namespace orlop::segment {

// Client side, private memory: which chunks are owned by nobody. Guarded by the client's mutex.
class ChunkPool {
 public:
  explicit ChunkPool(std::uint32_t chunks);
  // Up to `count` chunks, appended to out; fewer when exhausted (miss reason ledger_full).
  std::uint32_t take(std::uint32_t count, std::vector<std::uint32_t>& out);
  void give_back(std::span<const std::uint32_t> chunks);  // bits already cleared by the owner
  std::uint32_t available() const;

 private:
  std::vector<std::uint32_t> free_;  // stack: recently used first
};

// Client side: the chunks of one owner thread. Not thread-safe but for release_cell(s).
class ThreadLedger {
 public:
  explicit ThreadLedger(ChannelView channel) : channel_(channel) {}

  // Makes sure that `count` empty cells are owned and their chunks' bits are set, taking chunks
  // from the pool (caller holds the client's mutex only for that: `refill`).
  // Returns the cells' indices in out; empty if `count` cells are not to be had.
  bool reserve(std::uint32_t count, std::vector<std::uint32_t>& out);
  // Chunks missing for `count` more cells; 0 = reserve() will succeed.
  std::uint32_t chunks_missing(std::uint32_t count) const;
  void adopt(std::span<const std::uint32_t> chunks);  // fresh from the pool
  // Finds owned chunks whose 64 cells are all 0, clears their bits and returns them (for the pool);
  // keeps at most `keep` of them. Call at times and at thread exit.
  void reclaim(std::uint32_t keep, std::vector<std::uint32_t>& out);
  std::span<const std::uint32_t> owned() const { return owned_; }

 private:
  ChannelView channel_;
  std::vector<std::uint32_t> owned_;
  std::vector<std::uint64_t> taken_;  // per owned chunk: cells handed out, as far as we know
};

// Any thread: ends pins. Store-release: all reads of the bytes come before it.
void release_cells(ChannelView channel, std::span<const std::uint32_t> cells);

// Node side: one pass over the used chunks of one ledger. `interesting` is a bitmap by slot id; for
// every cell whose slot is marked there, calls on_hit(LedgerCell). Returns cells read. Also counts
// non-empty cells in *pinned_cells.
template <class OnHit>
std::uint64_t scan_ledger(const ChannelView& channel, std::span<const std::uint64_t> interesting,
                          std::uint64_t* pinned_cells, OnHit&& on_hit) {
  std::uint64_t read = 0;
  const std::uint32_t chunks = channel.geometry().ledger_chunks;
  for (std::uint32_t w = 0; w < channel.bitmap_words(); ++w) {
    std::uint64_t bits = channel.bitmap()[w].load(std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t chunk = w * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits));
      if (chunk >= chunks) break;  // hostile bit
      Atomic<std::uint64_t>* cells = channel.cells() + std::uint64_t{chunk} * kCellsPerChunk;
      for (std::uint32_t i = 0; i < kCellsPerChunk; ++i) {
        const std::uint64_t packed = cells[i].load(std::memory_order_relaxed);
        if (packed == 0) continue;
        ++*pinned_cells;
        const LedgerCell cell = LedgerCell::unpack(packed);
        const std::uint64_t word = cell.slot.value >> 6;
        if (word < interesting.size() && (interesting[word] >> (cell.slot.value & 63) & 1))
          on_hit(cell);
      }
      read += kCellsPerChunk;
    }
  }
  return read;
}

}  // namespace orlop::segment
