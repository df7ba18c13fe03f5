// SPDX-License-Identifier: Apache-2.0
// The two clocks. Time that is compared or subtracted is monotonic; wall time is for people.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace orlop {

// CLOCK_MONOTONIC, the same clock in all processes of the machine. About 20 ns, no syscall.
MonoNs monotonic_ns();

// deadline - now, 0 if past, kNever if deadline is kNever.
MonoNs time_left(MonoNs deadline, MonoNs now);

// Wall time of a log line, UTC: "2026-11-29T18:59:48.123456Z".
std::string wall_time_text();
// The pure part: nanoseconds since 1970.
std::string wall_time_text(std::uint64_t unix_ns);

}  // namespace orlop
