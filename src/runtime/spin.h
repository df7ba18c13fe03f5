// SPDX-License-Identifier: Apache-2.0
// How long to look at the rings before going to sleep. A wake-up costs a few microseconds on the
// same core and 40 us on another halted one; spinning on a core that the client needs costs a whole
// time slice (measured: 25 times slower). So: none with <= 2 CPUs, else as long as it pays.
// Pure; the driver counts time.
#pragma once

#include <algorithm>

#include "base/ids.h"

namespace orlop::runtime {

class AdaptiveSpin {
 public:
  // Twice the cost of a cross-core wake-up: the classic bound for never losing more than half.
  static constexpr MonoNs kMostNs = 80 * kNsPerUs;
  static constexpr MonoNs kLeastNs = 1 * kNsPerUs;

  // fixed: exactly this long, always.
  AdaptiveSpin() = default;
  explicit AdaptiveSpin(MonoNs fixed) : budget_(fixed), adaptive_(false) {}
  static AdaptiveSpin for_cpus(unsigned cpus) {
    AdaptiveSpin spin(0);
    if (cpus > 2) spin.adaptive_ = true;
    return spin;
  }

  MonoNs budget_ns() const { return budget_; }
  // A message came while spinning.
  void hit() {
    if (adaptive_) budget_ = std::clamp(budget_ * 2, kLeastNs, kMostNs);
  }
  // Spun in vain; then slept for so long. A short sleep would have been saved by spinning longer.
  void missed(MonoNs slept) {
    if (!adaptive_) return;
    budget_ = slept < kMostNs ? std::clamp(budget_ * 2, kLeastNs, kMostNs) : budget_ / 2;
  }

 private:
  MonoNs budget_ = 0;
  bool adaptive_ = false;
};

}  // namespace orlop::runtime
