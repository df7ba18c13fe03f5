// SPDX-License-Identifier: Apache-2.0
// Node side of the touch ring: a lossy record of accessed slots, drained before every choice of
// victims. The client's side is touch() in pin.h.
#pragma once

#include <cstdint>

#include "base/planted.h"
#include "segment/channel.h"

namespace orlop::segment {

class TouchReader {
 public:
  TouchReader() = default;
  // Starts at what the client has written so far; older touches are not replayed.
  explicit TouchReader(ChannelView channel)
      : channel_(channel), next_(channel.header().touch_tail.load(std::memory_order_acquire)) {}

  // Calls fn(SlotId) for each new touch, at most `limit`. Returns touches lost to overflow.
  template <class Fn>
  std::uint32_t drain(std::uint32_t limit, Fn&& fn) {
    const std::uint32_t cells = channel_.geometry().touch_cells;
    const std::uint32_t tail = channel_.header().touch_tail.load(std::memory_order_acquire);
    std::uint32_t waiting = tail - next_, lost = 0;
    if (waiting > cells) {
      lost = waiting - cells;
      next_ += lost;
      waiting = cells;
      if (PLANTED(kLostTouchesUncounted)) lost = 0;
    }
    for (std::uint32_t i = 0; i < waiting && i < limit; ++i, ++next_)
      fn(SlotId{channel_.touches()[next_ & (cells - 1)].load(std::memory_order_relaxed)});
    return lost;
  }
  bool pending() const {
    return channel_.header().touch_tail.load(std::memory_order_acquire) != next_;
  }

 private:
  ChannelView channel_;
  std::uint32_t next_ = 0;
};

}  // namespace orlop::segment
