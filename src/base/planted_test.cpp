// SPDX-License-Identifier: Apache-2.0
// Built with ORLOP_SIMULATION (base_sim_test) and without (base_test).
#include "base/planted.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/sometimes.h"

namespace orlop {
namespace {

TEST(PlantedBug, Name_of_every_bug_leads_back_to_it) {
  EXPECT_FALSE(all_planted_bugs().empty());
  int expected = 1;
  for (const PlantedBug bug : all_planted_bugs()) {
    EXPECT_EQ(static_cast<int>(bug), expected++) << "the list follows the enum";
    EXPECT_NE(to_string(bug), "unknown");
    EXPECT_EQ(planted_bug_from_name(to_string(bug)), bug);
  }
  EXPECT_EQ(to_string(static_cast<PlantedBug>(expected)), "unknown")
      << "a bug is missing in all_planted_bugs()";
  EXPECT_EQ(planted_bug_from_name("none"), PlantedBug::kNone);
  EXPECT_EQ(planted_bug_from_name("unknown"), std::nullopt);
}

#ifdef ORLOP_SIMULATION

TEST(PlantedBug, Planted_is_true_only_for_the_one_set) {
  EXPECT_FALSE(PLANTED(kFenceMissing));
  g_planted_bug = PlantedBug::kFenceMissing;
  EXPECT_TRUE(PLANTED(kFenceMissing));
  EXPECT_FALSE(PLANTED(kRecoveryBySlot));
  g_planted_bug = PlantedBug::kNone;
}

TEST(Sometimes, Reached_states_are_counted_by_name) {
  sometimes_reset();
  for (int i = 0; i < 5; ++i) {
    SOMETIMES(i >= 3, "late");
    SOMETIMES(i > 100, "never");
  }
  EXPECT_EQ(sometimes_count("late"), 2U);
  EXPECT_EQ(sometimes_count("never"), 0U);
  EXPECT_EQ(sometimes_counts().size(), 1U);
  sometimes_reset();
  EXPECT_TRUE(sometimes_counts().empty());
}

#else

TEST(PlantedBug, Production_build_has_none) {
  EXPECT_FALSE(PLANTED(kFenceMissing));
}

#endif

}  // namespace
}  // namespace orlop
