// SPDX-License-Identifier: Apache-2.0
#include "runtime/spin.h"

#include <gtest/gtest.h>

namespace orlop::runtime {
namespace {

TEST(AdaptiveSpin, One_cpu_never_spins) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(1);
  spin.hit();
  for (int i = 0; i < 20; ++i) spin.missed(1);
  EXPECT_EQ(spin.budget_ns(), 0u);
}

TEST(AdaptiveSpin, Short_sleeps_raise_and_long_ones_lower_the_budget) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(2);
  EXPECT_EQ(spin.budget_ns(), 0u);
  for (int i = 0; i < 8; ++i) spin.missed(kNsPerUs);
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kMostNs);
  for (int i = 0; i < 40; ++i) spin.missed(kNsPerSecond);
  EXPECT_EQ(spin.budget_ns(), 0u);
  spin.hit();
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kLeastNs);
}

TEST(AdaptiveSpin, Budget_stays_below_two_wake_ups) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(8);
  for (int i = 0; i < 20; ++i) spin.hit();
  EXPECT_EQ(spin.budget_ns(), 2 * kWakeUpNs);
}

TEST(ActiveClients, Asked_lately_or_never) {
  constexpr MonoNs kNow = 100 * kNsPerSecond;
  EXPECT_FALSE(is_active(0, kNow));
  EXPECT_FALSE(is_active(0, kActiveFor / 2)) << "never is not just after the machine's start";
  EXPECT_TRUE(is_active(kNow, kNow));
  EXPECT_TRUE(is_active(kNow - kActiveFor + 1, kNow));
  EXPECT_FALSE(is_active(kNow - kActiveFor, kNow));
}

// The other side waits for our core: every sleep is short, no spin ever hits.
TEST(AdaptiveSpin, Shared_core_costs_less_than_two_percent) {
  constexpr MonoNs kRoundTrip = 4 * kNsPerUs;
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(2);
  MonoNs spun = 0;
  constexpr int kSettled = 5'000, kCounted = 50'000;
  for (int i = 0; i < kSettled + kCounted; ++i) {
    if (i >= kSettled) spun += spin.budget_ns();
    spin.missed(kRoundTrip);
  }
  EXPECT_GT(spun, 0u) << "it never tries again";
  EXPECT_LT(spun, kCounted * kRoundTrip / 50);
}

TEST(AdaptiveSpin, First_hit_after_a_pause_ends_the_pauses) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(2);
  for (int i = 0; i < 5'000; ++i) spin.missed(kNsPerUs);
  for (int i = 0; i < 3'000 && spin.budget_ns() == 0; ++i) spin.missed(kNsPerUs);
  ASSERT_EQ(spin.budget_ns(), AdaptiveSpin::kMostNs);
  spin.hit();
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kMostNs);
  spin.missed(kNsPerUs);  // the next failure counts as the first again
  spin.missed(kNsPerUs);
  spin.missed(kNsPerUs);
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kMostNs);
}

TEST(AdaptiveSpin, Fixed_budget_stays) {
  AdaptiveSpin spin(5);
  spin.hit();
  spin.missed(1);
  EXPECT_EQ(spin.budget_ns(), 5u);
}

}  // namespace
}  // namespace orlop::runtime
