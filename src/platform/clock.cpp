// SPDX-License-Identifier: Apache-2.0
#include "platform/clock.h"

#include <cstdio>
#include <ctime>

namespace orlop {
namespace {

std::uint64_t read_clock(clockid_t id) {
  timespec t{};
  ::clock_gettime(id, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

MonoNs monotonic_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

MonoNs time_left(MonoNs deadline, MonoNs now) {
  if (deadline == kNever) return kNever;
  return deadline > now ? deadline - now : 0;
}

std::string wall_time_text() {
  return wall_time_text(read_clock(CLOCK_REALTIME));
}

std::string wall_time_text(std::uint64_t unix_ns) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ns / kNsPerSecond);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[64];
  std::snprintf(text, sizeof text, "%s.%06uZ", day,
                static_cast<unsigned>(unix_ns % kNsPerSecond / kNsPerUs));
  return text;
}

}  // namespace orlop
