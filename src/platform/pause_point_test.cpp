// SPDX-License-Identifier: Apache-2.0
#include "platform/pause_point.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "platform/clock.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

constexpr MonoNs kSoon = 20 * kNsPerSecond;

// A child that takes the page and passes one point `times` times; exit code: 7.
ForkedChild passing_child(const PauseControl& control, PausePoint point, int times) {
  return ForkedChild([&control, point, times] {
    ::setenv(kPauseVariable, std::to_string(control.fd()).c_str(), 1);
    take_pause_page_from_environment();
    if (pause_page_descriptor() != control.fd()) return 1;
    for (int i = 0; i < times; ++i) {
      if (point == PausePoint::kClientPinned) PAUSE_POINT(kClientPinned);
      if (point == PausePoint::kKeeperHeld) PAUSE_POINT(kKeeperHeld);
    }
    return 7;
  });
}

TEST(PausePoint, Names_are_distinct_and_say_whose_code_it_is) {
  std::set<std::string_view> names;
  for (const PausePoint point : all_pause_points()) {
    const std::string_view name = to_string(point);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(pause_point_from_name(name), point);
    const PauseProcess process = process_of(point);
    EXPECT_TRUE(name.starts_with(process == PauseProcess::kClient   ? "client_"
                                 : process == PauseProcess::kServer ? "server_"
                                                                    : "keeper_"))
        << name;
  }
  EXPECT_GE(names.size(), 30U);
  EXPECT_FALSE(pause_point_from_name("client_nowhere"));
}

TEST(PausePoint, Without_a_page_it_does_nothing) {
  PAUSE_POINT(kClientPinned);
  EXPECT_EQ(pause_page_descriptor(), -1);
}

TEST(PausePoint, The_armed_point_stops_the_process_until_it_is_let_go) {
  auto control = PauseControl::create();
  ORLOP_ASSERT_OK(control);
  control->arm(PausePoint::kClientPinned);
  ForkedChild child = passing_child(*control, PausePoint::kClientPinned, 3);
  const auto thread = control->wait_stopped(monotonic_ns() + kSoon);
  ASSERT_TRUE(thread);
  EXPECT_EQ(*thread, child.pid());
  EXPECT_EQ(control->arrivals(PausePoint::kClientPinned), 1U);
  control->let_go();
  EXPECT_EQ(child.wait(), 7);
  EXPECT_EQ(control->arrivals(PausePoint::kClientPinned), 3U);  // the others passed
}

TEST(PausePoint, A_skipped_arrival_passes) {
  auto control = PauseControl::create();
  ORLOP_ASSERT_OK(control);
  control->arm(PausePoint::kKeeperHeld, 2);
  ForkedChild child = passing_child(*control, PausePoint::kKeeperHeld, 5);
  ASSERT_TRUE(control->wait_stopped(monotonic_ns() + kSoon));
  EXPECT_EQ(control->arrivals(PausePoint::kKeeperHeld), 3U);
  control->let_go();
  EXPECT_EQ(child.wait(), 7);
}

TEST(PausePoint, Another_point_passes_and_the_wait_ends_at_its_deadline) {
  auto control = PauseControl::create();
  ORLOP_ASSERT_OK(control);
  control->arm(PausePoint::kClientPinned);
  ForkedChild child = passing_child(*control, PausePoint::kKeeperHeld, 1);
  EXPECT_EQ(child.wait(), 7);
  EXPECT_FALSE(control->wait_stopped(monotonic_ns() + kNsPerMs));
  EXPECT_EQ(control->arrivals(PausePoint::kClientPinned), 0U);
}

TEST(PausePoint, One_of_two_processes_stops) {
  auto control = PauseControl::create();
  ORLOP_ASSERT_OK(control);
  control->arm(PausePoint::kClientPinned);
  ForkedChild one = passing_child(*control, PausePoint::kClientPinned, 1);
  const auto thread = control->wait_stopped(monotonic_ns() + kSoon);
  ASSERT_TRUE(thread);
  ForkedChild other = passing_child(*control, PausePoint::kClientPinned, 1);
  EXPECT_EQ(other.wait(), 7);
  control->let_go();
  EXPECT_EQ(one.wait(), 7);
}

TEST(PausePoint, A_number_that_is_no_pause_page_is_left_alone) {
  ForkedChild child([] {
    ::setenv(kPauseVariable, "1", 1);  // standard output
    take_pause_page_from_environment();
    if (pause_page_descriptor() != -1) return 1;
    auto file = MemoryFile::create({.name = "other", .bytes = 4096});
    if (!file) return 2;
    ::setenv(kPauseVariable, std::to_string(file->fd()).c_str(), 1);
    take_pause_page_from_environment();
    if (pause_page_descriptor() != -1) return 3;
    ::setenv(kPauseVariable, "7x", 1);
    take_pause_page_from_environment();
    PAUSE_POINT(kClientPinned);
    return pause_page_descriptor() == -1 ? 7 : 4;
  });
  EXPECT_EQ(child.wait(), 7);
}

}  // namespace
}  // namespace orlop
