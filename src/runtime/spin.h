// SPDX-License-Identifier: Apache-2.0
// How long to look at a ring before going to sleep: whoever waits for the other side of a channel.
//
// A wake-up costs a few microseconds on the same core and 40 us on another halted one, so looking a
// little longer pays wherever the other side runs meanwhile. It cannot run while we sit on the only
// core it may use: then all spinning is in vain (always spinning there was 25 times slower). Nobody
// tells us which of the two it is, and the scheduler changes it, so this learns from what happened:
//   * the message came while spinning: go on;
//   * in vain, then a long sleep: nothing was going on; spin less;
//   * in vain with the whole budget, then a short sleep: the other side had waited for our core.
//     Sleep at once the next 2, then 4 ... then 1,024 times, and try again: below 2 % are lost.
// Pure; the driver counts time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace orlop::runtime {

class AdaptiveSpin {
 public:
  // Twice the cost of a cross-core wake-up: the classic bound for never losing more than half.
  static constexpr MonoNs kMostNs = 80 * kNsPerUs;
  static constexpr MonoNs kLeastNs = 1 * kNsPerUs;
  static constexpr unsigned kMostDoublings = 10;  // of the sleeps between two tries

  // fixed: exactly this long, always.
  AdaptiveSpin() = default;
  explicit AdaptiveSpin(MonoNs fixed) : budget_(fixed), adaptive_(false) {}
  // most: the longest budget. Never spins on one CPU.
  static AdaptiveSpin for_cpus(unsigned cpus, MonoNs most = kMostNs) {
    AdaptiveSpin spin(0);
    spin.adaptive_ = cpus > 1;
    spin.most_ = most;
    return spin;
  }

  MonoNs budget_ns() const { return pause_ == 0 ? budget_ : 0; }
  // A message came while spinning.
  void hit() {
    if (!adaptive_) return;
    budget_ = std::clamp(budget_ * 2, kLeastNs, most_);
    failures_ = 0;
  }
  // Spun for budget_ns() in vain, or not at all; then slept for so long.
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
    if (budget_ < most_) {
      budget_ = std::clamp(budget_ * 2, kLeastNs, most_);
      return;
    }
    failures_ = std::min(failures_ + 1, kMostDoublings);
    pause_ = 1U << failures_;
  }

 private:
  MonoNs budget_ = 0;
  MonoNs most_ = kMostNs;
  bool adaptive_ = false;
  unsigned failures_ = 0;    // whole budgets in vain since the last hit
  std::uint32_t pause_ = 0;  // short sleeps before the next try
};

}  // namespace orlop::runtime
