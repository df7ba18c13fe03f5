// SPDX-License-Identifier: Apache-2.0
// Runs a budget of seeds and the seeds that once failed.
//   ORLOP_SIM_SEED=n    only this one
//   ORLOP_SIM_SEEDS=n   how many
//   ORLOP_SIM_BASE=hex  first seed, from a commit hash: another set of seeds for every commit
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/sometimes.h"
#include "simulation.h"

namespace orlop::simulation {
namespace {

constexpr std::uint64_t kDefaultSeeds = 300;

std::uint64_t number_from(const char* variable, int base, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  // A whole commit hash does not fit: its first 12 digits say as much.
  return std::stoull(std::string(text).substr(0, 12), nullptr, base);
}

void expect_clean(std::uint64_t seed) {
  const Report report = run_simulation(seed);
  EXPECT_FALSE(report.failure) << "seed " << seed << ": " << *report.failure << "\n" << report.text;
}

class Simulation : public ::testing::Test {
 protected:
  void SetUp() override { print_run_on_abort(); }
};

TEST_F(Simulation, Same_seed_replays_exactly) {
  sometimes_reset();
  run_simulation(3);
  const auto first = sometimes_counts();
  sometimes_reset();
  run_simulation(3);
  EXPECT_EQ(first, sometimes_counts());
}

TEST_F(Simulation, Seeds_of_the_budget_are_clean) {
  const std::uint64_t only = number_from("ORLOP_SIM_SEED", 10, 0);
  if (only != 0) return expect_clean(only);
  const std::uint64_t base = number_from("ORLOP_SIM_BASE", 16, 1);
  const std::uint64_t seeds = number_from("ORLOP_SIM_SEEDS", 10, kDefaultSeeds);
  sometimes_reset();
  for (std::uint64_t i = 0; i < seeds && !HasFailure(); ++i) expect_clean(base + i);
  for (const auto& [name, count] : sometimes_counts())
    std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), name.c_str());
}

}  // namespace
}  // namespace orlop::simulation
