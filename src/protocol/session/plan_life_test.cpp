// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/plan_life.h"

#include <gtest/gtest.h>

#include "base/planted.h"

namespace orlop::protocol {
namespace {

TEST(PlanLife, End_without_copies_ends) {
  PlanLife life;
  EXPECT_TRUE(life.end());
  EXPECT_EQ(life.state(), PlanLife::State::kEnded);
  EXPECT_FALSE(life.end());
  EXPECT_FALSE(life.register_copy());
}

TEST(PlanLife, End_with_copies_waits_for_the_last) {
  PlanLife life;
  ASSERT_TRUE(life.register_copy());
  ASSERT_TRUE(life.register_copy());
  EXPECT_FALSE(life.end());
  EXPECT_EQ(life.state(), PlanLife::State::kEnding);
  EXPECT_FALSE(life.register_copy());
  EXPECT_FALSE(life.copy_done(true).ended);
  EXPECT_TRUE(life.copy_done(true).ended);
  EXPECT_EQ(life.state(), PlanLife::State::kEnded);
}

TEST(PlanLife, Failed_copy_keeps_the_plan_for_ever) {
  PlanLife life;
  ASSERT_TRUE(life.register_copy());
  ASSERT_TRUE(life.register_copy());
  EXPECT_TRUE(life.copy_done(false).accepted);
  EXPECT_FALSE(life.end());
  EXPECT_FALSE(life.copy_done(true).ended);
  EXPECT_EQ(life.state(), PlanLife::State::kEnding);
  EXPECT_TRUE(life.stuck());
}

TEST(PlanLife, Copy_that_is_not_registered_is_refused) {
  PlanLife life;
  EXPECT_FALSE(life.copy_done(true).accepted);
  ASSERT_TRUE(life.register_copy());
  EXPECT_TRUE(life.copy_done(true).accepted);
  EXPECT_FALSE(life.copy_done(true).accepted);
}

TEST(PlanLife, Planted_bug_ends_under_a_copy) {
  g_planted_bug = PlantedBug::kPlanEndedBeforeCopies;
  PlanLife life;
  ASSERT_TRUE(life.register_copy());
  EXPECT_TRUE(life.end());
  g_planted_bug = PlantedBug::kNone;
}

}  // namespace
}  // namespace orlop::protocol
