// SPDX-License-Identifier: Apache-2.0
#include "platform/clock.h"

#include <gtest/gtest.h>

namespace orlop {
namespace {

TEST(Clock, Monotonic_never_goes_back) {
  MonoNs last = monotonic_ns();
  for (int i = 0; i < 1000; ++i) {
    const MonoNs now = monotonic_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, Time_left_stops_at_zero_and_keeps_never) {
  EXPECT_EQ(time_left(100, 40), 60u);
  EXPECT_EQ(time_left(40, 100), 0u);
  EXPECT_EQ(time_left(kNever, 100), kNever);
}

TEST(Clock, Wall_time_is_utc_with_microseconds) {
  EXPECT_EQ(wall_time_text(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(wall_time_text(1'700'000'000'123'456'789), "2023-11-14T22:13:20.123456Z");
  EXPECT_EQ(wall_time_text().size(), 27u);
}

}  // namespace
}  // namespace orlop
