// SPDX-License-Identifier: Apache-2.0
// How a binding ends a wait of its own thread before the deadline: Ctrl-C in Python.
//
//   const WaitInterruption mine(+[] { return signal_arrived(); });
//   client.put_start(...);   // asks at most kInterruptionSlice apart while it waits for the node;
//                            // true ends the wait like an expired deadline
// The check is called without locks of the client. Thread: counts for the calling thread, from
// construction to destruction.
#pragma once

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/ids.h"
#include "platform/clock.h"

namespace orlop::client {

inline constexpr MonoNs kInterruptionSlice = 50 * kNsPerMs;  // how late a Ctrl-C may be felt

class WaitInterruption {
 public:
  using Check = bool (*)();
  explicit WaitInterruption(Check check) : before_(std::exchange(t_check, check)) {}
  ~WaitInterruption() { t_check = before_; }
  WaitInterruption(const WaitInterruption&) = delete;
  WaitInterruption& operator=(const WaitInterruption&) = delete;

  // The end of one wait of the calling thread, at most `deadline`.
  static MonoNs slice(MonoNs deadline) {
    return t_check == nullptr ? deadline : std::min(deadline, monotonic_ns() + kInterruptionSlice);
  }
  // Asks, with the lock given up meanwhile.
  static bool asked_to_stop(std::unique_lock<std::mutex>& lock) {
    if (t_check == nullptr) return false;
    lock.unlock();
    const bool stop = t_check();
    lock.lock();
    return stop;
  }

 private:
  static inline constinit thread_local Check t_check = nullptr;
  Check before_;
};

}  // namespace orlop::client
