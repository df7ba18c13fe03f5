// SPDX-License-Identifier: Apache-2.0
// The missed ring: a lossy sample of the keys that gets did not find, client to node. It never says
// that something is there or not; it only feeds the counters that explain a hit rate.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "segment/channel.h"

namespace orlop::segment {

struct MissedKey {
  KeyId key;
  NamespaceRow row;
};

// Client. One producer at a time per channel (caller's mutex). Overwrites what the node has not
// drained.
inline void write_missed(const ChannelView& channel, const MissedKey& missed) {
  Atomic<std::uint32_t>& tail = channel.header().missed_tail;
  const std::uint32_t at = tail.load(std::memory_order_relaxed);
  MissedCell& cell = channel.missed()[at & (kMissedCells - 1)];
  cell.key_lo.store(missed.key.lo, std::memory_order_relaxed);
  cell.key_hi.store(missed.key.hi, std::memory_order_relaxed);
  cell.row.store(missed.row.value, std::memory_order_relaxed);
  tail.store(at + 1, std::memory_order_release);  // partner: drain()
}

// Node. Every number in the ring is the client's: the caller checks the row.
class MissedReader {
 public:
  MissedReader() = default;
  // Starts at what the client has written so far; older misses are not replayed.
  explicit MissedReader(ChannelView channel)
      : channel_(channel), next_(channel.header().missed_tail.load(std::memory_order_acquire)) {}

  // Calls fn(MissedKey) for each new one, at most `limit`. Returns those lost to overflow. A cell
  // the client may be overwriting meanwhile is lost, too: the ring holds kMissedCells - 1.
  template <class Fn>
  std::uint32_t drain(std::uint32_t limit, Fn&& fn) {
    std::uint32_t lost = skip_overwritten();
    const std::uint32_t waiting = waiting_cells();
    for (std::uint32_t i = 0; i < waiting && i < limit; ++i) {
      const MissedCell& cell = channel_.missed()[next_ & (kMissedCells - 1)];
      const MissedKey copy{
          {cell.key_lo.load(std::memory_order_relaxed),
           cell.key_hi.load(std::memory_order_relaxed)},
          NamespaceRow{static_cast<std::uint32_t>(cell.row.load(std::memory_order_relaxed))}};
      if (const std::uint32_t gone = skip_overwritten(); gone != 0) {
        lost += gone;
        continue;
      }
      ++next_;
      fn(copy);
    }
    return lost;
  }
  bool pending() const { return waiting_cells() != 0; }

 private:
  std::uint32_t waiting_cells() const {
    return channel_.header().missed_tail.load(std::memory_order_acquire) - next_;
  }
  std::uint32_t skip_overwritten() {
    const std::uint32_t waiting = waiting_cells();
    if (waiting < kMissedCells) return 0;
    const std::uint32_t lost = waiting - (kMissedCells - 1);
    next_ += lost;
    return lost;
  }

  ChannelView channel_;
  std::uint32_t next_ = 0;
};

}  // namespace orlop::segment
