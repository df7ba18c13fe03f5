// SPDX-License-Identifier: Apache-2.0
#include "runtime/spin.h"

#include <gtest/gtest.h>

namespace orlop::runtime {
namespace {

TEST(AdaptiveSpin, Two_cpus_never_spin) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(2);
  spin.hit();
  spin.missed(1);
  EXPECT_EQ(spin.budget_ns(), 0u);
}

TEST(AdaptiveSpin, Short_sleeps_raise_and_long_ones_lower_the_budget) {
  AdaptiveSpin spin = AdaptiveSpin::for_cpus(8);
  EXPECT_EQ(spin.budget_ns(), 0u);
  for (int i = 0; i < 20; ++i) spin.missed(kNsPerUs);
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kMostNs);
  for (int i = 0; i < 40; ++i) spin.missed(kNsPerSecond);
  EXPECT_EQ(spin.budget_ns(), 0u);
  spin.hit();
  EXPECT_EQ(spin.budget_ns(), AdaptiveSpin::kLeastNs);
}

TEST(AdaptiveSpin, Fixed_budget_stays) {
  AdaptiveSpin spin(5);
  spin.hit();
  spin.missed(1);
  EXPECT_EQ(spin.budget_ns(), 5u);
}

}  // namespace
}  // namespace orlop::runtime
