// SPDX-License-Identifier: Apache-2.0
// How long to look at a ring before going to sleep: whoever waits for the other side of a channel
// (docs/decisions/0010-*.md).
//
// A wake-up costs a few microseconds on the same core and kWakeUpNs on another halted one, so
// looking a little longer pays wherever the other side runs meanwhile. It cannot run while we sit
// on the only core it may use: then all spinning is in vain (always spinning there was 25 times
// slower). Nobody tells us which of the two it is, and the scheduler changes it, so this learns
// from what happened:
//   * the message came while spinning: go on;
//   * in vain, then a long sleep: nothing was going on; spin less;
//   * in vain with the whole budget, then a short sleep: the other side had waited for our core.
//     Sleep at once the next 2, then 4 ... then 2,048 times, and try again: below 2 % are lost.
// Pure; the driver counts time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace orlop::runtime {

// Until a thread that sleeps runs on another, halted CPU: 40 to 60 us measured (decision 0010).
inline constexpr MonoNs kWakeUpNs = 50 * kNsPerUs;

// A client that asked this lately runs, or is about to: it can use a CPU of its own. Longer than
// the scheduler lets a runnable thread wait (a few ms), so that one whose turn it is not counts
// too.
inline constexpr MonoNs kActiveFor = 10 * kNsPerMs;
constexpr bool is_active(MonoNs asked_at /* 0: never */, MonoNs now) {
  return asked_at != 0 && now - asked_at < kActiveFor;
}

class AdaptiveSpin {
 public:
  // Looking as long as the wake-up costs never loses more than half (the classic bound); twice, as
  // the other side may have to wake up first and its answer must not find us asleep.
  static constexpr MonoNs kMostNs = 2 * kWakeUpNs;
  static constexpr MonoNs kLeastNs = 1 * kNsPerUs;
  static constexpr unsigned kMostDoublings = 11;  // of the sleeps between two tries

  // fixed: exactly this long, always.
  AdaptiveSpin() = default;
  explicit AdaptiveSpin(MonoNs fixed) : budget_(fixed), adaptive_(false) {}
  // Never spins on one CPU.
  static AdaptiveSpin for_cpus(unsigned cpus) {
    AdaptiveSpin spin(0);
    spin.adaptive_ = cpus > 1;
    return spin;
  }

  MonoNs budget_ns() const { return pause_ == 0 ? budget_ : 0; }
  // A message came while spinning.
  void hit() {
    if (!adaptive_) return;
    budget_ = std::clamp(budget_ * 2, kLeastNs, kMostNs);
    failures_ = 0;
  }
  // Spun for budget_ns() in vain, then slept for so long. Not for a sleep before which the caller
  // would not spin whatever the budget: nothing is to be learnt from it.
  void missed(MonoNs slept) {
    if (!adaptive_) return;
    if (slept >= kMostNs) {
      if (pause_ == 0) budget_ /= 2;
      return;
    }
    if (pause_ > 0) {
      --pause_;
      return;
    }
    if (budget_ < kMostNs) {
      budget_ = std::clamp(budget_ * 2, kLeastNs, kMostNs);
      return;
    }
    failures_ = std::min(failures_ + 1, kMostDoublings);
    pause_ = 1U << failures_;
  }

 private:
  MonoNs budget_ = 0;
  bool adaptive_ = false;
  unsigned failures_ = 0;    // whole budgets in vain since the last hit
  std::uint32_t pause_ = 0;  // short sleeps before the next try
};

}  // namespace orlop::runtime
