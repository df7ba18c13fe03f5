// SPDX-License-Identifier: Apache-2.0
#include "segment/ledger.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::segment {
namespace {

constexpr std::uint64_t kAllTaken = ~std::uint64_t{0};
// Owned chunks looked at per reserve() beyond those it needs: bounds the cost of a get of a thread
// that holds many pinned chunks; it then asks the pool for fresh ones.
constexpr std::uint32_t kLookAround = 4;

Atomic<std::uint64_t>* cells_of(const ChannelView& channel, std::uint32_t chunk) {
  return channel.cells() + std::uint64_t{chunk} * kCellsPerChunk;
}

// Bit i: cell i is not empty. Acquire: partner of the release in release_cells.
std::uint64_t filled_cells(const ChannelView& channel, std::uint32_t chunk) {
  const Atomic<std::uint64_t>* cells = cells_of(channel, chunk);
  std::uint64_t filled = 0;
  for (std::uint32_t i = 0; i < kCellsPerChunk; ++i)
    filled |= std::uint64_t{cells[i].load(std::memory_order_acquire) != 0} << i;
  return filled;
}

void set_chunk_bit(const ChannelView& channel, std::uint32_t chunk) {
  // Before the chunk's cells and before the pin's fence, which orders both for the node's scan.
  channel.bitmap()[chunk / 64].fetch_or(std::uint64_t{1} << (chunk % 64),
                                        std::memory_order_acq_rel);
}

void clear_chunk_bit(const ChannelView& channel, std::uint32_t chunk) {
  channel.bitmap()[chunk / 64].fetch_and(~(std::uint64_t{1} << (chunk % 64)),
                                         std::memory_order_acq_rel);
}

}  // namespace

ChunkPool::ChunkPool(std::uint32_t chunks) : total_(chunks) {
  free_.reserve(chunks);
  for (std::uint32_t i = chunks; i > 0; --i) free_.push_back(i - 1);  // taken in ascending order
}

std::uint32_t ChunkPool::take(std::uint32_t count, std::vector<std::uint32_t>& out) {
  const auto taken = static_cast<std::uint32_t>(std::min<std::size_t>(count, free_.size()));
  out.insert(out.end(), free_.rbegin(), free_.rbegin() + taken);
  free_.resize(free_.size() - taken);
  return taken;
}

void ChunkPool::give_back(std::span<const std::uint32_t> chunks) {
  CHECK(free_.size() + chunks.size() <= total_, "chunk given back twice");
  free_.insert(free_.end(), chunks.rbegin(), chunks.rend());
}

std::uint32_t ChunkPool::available() const {
  return static_cast<std::uint32_t>(free_.size());
}

void ThreadLedger::adopt(std::span<const std::uint32_t> chunks) {
  for (const std::uint32_t chunk : chunks) {
    CHECK(chunk < channel_.geometry().ledger_chunks);
    if (!PLANTED(kChunkBitNotSet)) set_chunk_bit(channel_, chunk);
    owned_.push_back(chunk);
    taken_.push_back(kAllTaken);
    refresh(static_cast<std::uint32_t>(owned_.size() - 1));
  }
}

// Learns which cells of an owned chunk were released, by whichever thread. A cell that reads 0 was
// released for good: its pin is ended once.
void ThreadLedger::refresh(std::uint32_t position) {
  if (taken_[position] == 0) return;
  taken_[position] = filled_cells(channel_, owned_[position]);
  if (taken_[position] == 0 && position != small_) idle_.push_back(position);
}

// Room for `count` cells in the chunk that small plans share.
bool ThreadLedger::small_has(std::uint32_t count) {
  if (small_ == kNone) return false;
  const auto free_cells = [this] {
    return static_cast<std::uint32_t>(std::popcount(~taken_[small_]));
  };
  if (free_cells() >= count) return true;
  refresh(small_);
  return free_cells() >= count;
}

std::uint32_t ThreadLedger::chunks_missing(std::uint32_t count) {
  const std::uint32_t rest = count % kCellsPerChunk;
  const std::uint32_t needed = count / kCellsPerChunk + (rest != 0 && !small_has(rest) ? 1 : 0);
  const auto owned = static_cast<std::uint32_t>(owned_.size());
  std::uint32_t looks = std::min(owned, 2 * needed + kLookAround);
  for (; idle_.size() < needed && looks > 0; --looks) {
    cursor_ = cursor_ + 1 < owned ? cursor_ + 1 : 0;
    if (cursor_ != small_) refresh(cursor_);
  }
  return idle_.size() >= needed ? 0 : needed - static_cast<std::uint32_t>(idle_.size());
}

bool ThreadLedger::reserve(std::uint32_t count, std::vector<std::uint32_t>& out) {
  out.clear();
  if (chunks_missing(count) != 0) return reserve_leftovers(count, out);
  out.reserve(count);
  for (std::uint32_t whole = count / kCellsPerChunk; whole > 0; --whole) {
    take_chunk(idle_.back(), out);
    idle_.pop_back();
  }
  const std::uint32_t rest = count % kCellsPerChunk;
  if (rest == 0) return true;
  if (!small_has(rest)) {
    // The chunk before stays owned and is found again when its cells are all 0.
    small_ = idle_.back();
    idle_.pop_back();
  }
  take_cells(small_, rest, out);
  return true;
}

void ThreadLedger::take_chunk(std::uint32_t position, std::vector<std::uint32_t>& out) {
  taken_[position] = kAllTaken;
  const std::size_t at = out.size();
  out.resize(at + kCellsPerChunk);
  std::iota(out.begin() + static_cast<std::ptrdiff_t>(at), out.end(),
            owned_[position] * kCellsPerChunk);
}

// Takes the first free cells of an owned chunk, at most `count`.
void ThreadLedger::take_cells(std::uint32_t position, std::uint32_t count,
                              std::vector<std::uint32_t>& out) {
  const std::uint32_t first = owned_[position] * kCellsPerChunk;
  for (std::uint64_t free = ~taken_[position]; free != 0 && count > 0; --count, free &= free - 1) {
    const auto cell = static_cast<std::uint32_t>(std::countr_zero(free));
    taken_[position] |= std::uint64_t{1} << cell;
    out.push_back(first + cell);
  }
}

// The pool had no more: any empty cell of any owned chunk will do.
bool ThreadLedger::reserve_leftovers(std::uint32_t count, std::vector<std::uint32_t>& out) {
  std::uint64_t free = 0;
  for (std::uint32_t position = 0; position < owned_.size(); ++position) {
    if (taken_[position] != 0) taken_[position] = filled_cells(channel_, owned_[position]);
    free += static_cast<std::uint32_t>(std::popcount(~taken_[position]));
  }
  if (free >= count) {
    for (std::uint32_t position = 0; position < owned_.size(); ++position)
      take_cells(position, count - static_cast<std::uint32_t>(out.size()), out);
  }
  rebuild_idle();
  return free >= count;
}

void ThreadLedger::rebuild_idle() {
  idle_.clear();
  for (auto position = static_cast<std::uint32_t>(owned_.size()); position > 0; --position) {
    if (taken_[position - 1] == 0 && position - 1 != small_) idle_.push_back(position - 1);
  }
}

void ThreadLedger::reclaim(std::uint32_t keep, std::vector<std::uint32_t>& out) {
  std::uint32_t kept = 0, left = 0;
  const std::uint32_t small_chunk = small_ == kNone ? kNone : owned_[small_];
  small_ = kNone;
  for (std::uint32_t position = 0; position < owned_.size(); ++position) {
    const std::uint32_t chunk = owned_[position];
    const std::uint64_t filled = filled_cells(channel_, chunk);
    if (filled == 0 && kept == keep) {
      clear_chunk_bit(channel_, chunk);
      out.push_back(chunk);
      continue;
    }
    if (filled == 0) ++kept;
    if (chunk == small_chunk) small_ = left;
    owned_[left] = chunk;
    taken_[left] = filled;
    ++left;
  }
  owned_.resize(left);
  taken_.resize(left);
  cursor_ = 0;
  rebuild_idle();
}

void ThreadLedger::abandon(std::vector<std::uint32_t>& out) {
  out.insert(out.end(), owned_.begin(), owned_.end());
  owned_.clear();
  taken_.clear();
  idle_.clear();
  small_ = kNone;
  cursor_ = 0;
}

namespace {

#ifdef ORLOP_SIMULATION
// The planted bug: whoever releases also tidies up. The owner may be about to store a cell there.
void clear_bits_of_empty_chunks(const ChannelView& channel, std::span<const std::uint32_t> cells) {
  for (const std::uint32_t cell : cells) {
    const std::uint32_t chunk = cell / kCellsPerChunk;
    if (filled_cells(channel, chunk) == 0) clear_chunk_bit(channel, chunk);
  }
}
#endif

}  // namespace

void release_cells(ChannelView channel, std::span<const std::uint32_t> cells) {
  for (const std::uint32_t cell : cells) channel.cells()[cell].store(0, std::memory_order_release);
#ifdef ORLOP_SIMULATION
  if (PLANTED(kChunkBitClearedByNonOwner)) clear_bits_of_empty_chunks(channel, cells);
#endif
}

}  // namespace orlop::segment
