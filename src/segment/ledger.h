// SPDX-License-Identifier: Apache-2.0
// The pin ledger of a client: cells {slot, generation} in chunks of 64 with a "chunk in use"
// bitmap.
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
  std::uint32_t total_;
  std::vector<std::uint32_t> free_;  // stack: recently used first
};

// Client side: the chunks of one owner thread. Not thread-safe; release_cells() needs no owner.
//
// Plans of 64 cells and more get whole chunks; what is left, and small plans, share one chunk whose
// bit stays set, so that a small get costs no read-modify-write.
//
//   ledger.chunks_missing(n) -> take that many from the pool, adopt() them -> reserve(n, cells)
//
// A reserved cell that still reads 0 at the next reserve() is given out again: write the cells
// (pin_prefix) before. Cells beyond the pinned prefix come back by that rule, with no call.
class ThreadLedger {
 public:
  explicit ThreadLedger(ChannelView channel) : channel_(channel) {}

  // Chunks to adopt for reserve(count) to get whole chunks; 0 = reserve() will succeed. Looks at a
  // bounded number of owned chunks only.
  std::uint32_t chunks_missing(std::uint32_t count);
  // Chunks from the pool, or abandoned by another thread (under the client's mutex). Sets their
  // bits.
  void adopt(std::span<const std::uint32_t> chunks);
  // Replaces out by the indices of `count` empty cells whose chunks' bits are set. If chunks are
  // missing, takes any empty cell of its chunks. False and out empty: not so many are to be had.
  bool reserve(std::uint32_t count, std::vector<std::uint32_t>& out);
  // Finds owned chunks whose 64 cells are all 0, clears their bits and appends them to out (for the
  // pool); keeps at most `keep` of them. Call at times and, with 0, at thread exit.
  void reclaim(std::uint32_t keep, std::vector<std::uint32_t>& out);
  // Thread exit, after reclaim(0): appends what still has pins, bits set, and owns nothing more.
  // Another thread's ledger may adopt them.
  void abandon(std::vector<std::uint32_t>& out);
  std::span<const std::uint32_t> owned() const { return owned_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void refresh(std::uint32_t position);
  bool small_has(std::uint32_t count);
  void take_chunk(std::uint32_t position, std::vector<std::uint32_t>& out);
  void take_cells(std::uint32_t position, std::uint32_t count, std::vector<std::uint32_t>& out);
  bool reserve_leftovers(std::uint32_t count, std::vector<std::uint32_t>& out);
  void rebuild_idle();

  ChannelView channel_;
  std::vector<std::uint32_t> owned_;  // chunks; a *position* below is an index into this
  std::vector<std::uint64_t> taken_;  // by position: cells handed out, as far as we know
  std::vector<std::uint32_t> idle_;   // positions with no cell taken, without small_
  std::uint32_t small_ = kNone;       // position of the chunk that small plans share
  std::uint32_t cursor_ = 0;          // position last looked at for released chunks
};

// Any thread: ends pins. Store-release: all reads of the bytes come before it.
void release_cells(ChannelView channel, std::span<const std::uint32_t> cells);

// Node side. What a cell names is a client's writing: unchecked.
//
// Calls on_cell(LedgerCell) for every cell of one chunk that is not empty.
template <class OnCell>
void for_each_cell_of_chunk(const ChannelView& channel, std::uint32_t chunk, OnCell&& on_cell) {
  Atomic<std::uint64_t>* cells = channel.cells() + std::uint64_t{chunk} * kCellsPerChunk;
  for (std::uint32_t i = 0; i < kCellsPerChunk; ++i) {
    // Acquire: partner of release_cells; the holder's reads are over before memory is reused.
    const std::uint64_t packed = cells[i].load(std::memory_order_acquire);
    if (packed != 0) on_cell(LedgerCell::unpack(packed));
  }
}

// One pass over the used chunks of one ledger; calls on_cell(LedgerCell) for every cell that is not
// empty. Returns cells read.
template <class OnCell>
std::uint64_t for_each_held_cell(const ChannelView& channel, OnCell&& on_cell) {
  std::uint64_t read = 0;
  const std::uint32_t chunks = channel.geometry().ledger_chunks;
  for (std::uint32_t w = 0; w < channel.bitmap_words(); ++w) {
    std::uint64_t bits = channel.bitmap()[w].load(std::memory_order_acquire);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t chunk = w * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits));
      if (chunk >= chunks) break;  // hostile bit
      for_each_cell_of_chunk(channel, chunk, on_cell);
      read += kCellsPerChunk;
    }
  }
  return read;
}

// A bounded part of that pass, from chunk `from` on: reads at most `left` cells, where a look at
// the bitmap counts as one, and takes what it read off `left`. Returns the chunk to go on with,
// beyond `from` if `left` was more than kCellsPerChunk; ledger_chunks or more: that was all.
template <class OnCell>
std::uint32_t for_some_held_cells(const ChannelView& channel, std::uint32_t from,
                                  std::uint32_t& left, OnCell&& on_cell) {
  const std::uint32_t chunks = channel.geometry().ledger_chunks;
  std::uint32_t chunk = from;
  while (chunk < chunks && left > 0) {
    --left;
    const std::uint64_t bits =
        channel.bitmap()[chunk / 64].load(std::memory_order_acquire) >> (chunk % 64);
    if (bits == 0) {
      chunk = (chunk / 64 + 1) * 64;
      continue;
    }
    chunk += static_cast<std::uint32_t>(__builtin_ctzll(bits));
    if (chunk >= chunks /* hostile bit */ || left < kCellsPerChunk) break;
    for_each_cell_of_chunk(channel, chunk, on_cell);
    ++chunk;
    left -= kCellsPerChunk;
  }
  return chunk;
}

// The same for the slots of `interesting`, a bitmap by slot id: calls on_hit(LedgerCell) for every
// cell whose slot is marked there. Also counts non-empty cells in *pinned_cells.
template <class OnHit>
std::uint64_t scan_ledger(const ChannelView& channel, std::span<const std::uint64_t> interesting,
                          std::uint64_t* pinned_cells, OnHit&& on_hit) {
  return for_each_held_cell(channel, [&](LedgerCell cell) {
    ++*pinned_cells;
    const std::uint64_t word = cell.slot.value >> 6;
    if (word < interesting.size() && (interesting[word] >> (cell.slot.value & 63) & 1))
      on_hit(cell);
  });
}

}  // namespace orlop::segment
