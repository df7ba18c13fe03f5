// SPDX-License-Identifier: Apache-2.0
// Pins whole processes, from outside, to one CPU: latency rows say where both sides run.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include "orlop/error.h"

namespace orlop::cli {

// All threads that the process has now; those that it makes later inherit from their maker.
// pid 0: this process. Errors: kSystem, kClosed (no such process).
Result<void> pin_process(pid_t pid, unsigned cpu);

// Gives this process's threads the CPUs back that they had when the object was made.
class AffinityKept {
 public:
  AffinityKept();
  AffinityKept(const AffinityKept&) = delete;
  AffinityKept& operator=(const AffinityKept&) = delete;
  ~AffinityKept();

 private:
  cpu_set_t before_;
};

}  // namespace orlop::cli
