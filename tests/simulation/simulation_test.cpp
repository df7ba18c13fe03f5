// SPDX-License-Identifier: Apache-2.0
// Runs a budget of seeds and the seeds that once failed.
//   ORLOP_SIM_SEED=n    only this one
//   ORLOP_SIM_SEEDS=n   how many
//   ORLOP_SIM_BASE=hex  first seed, from a commit hash: another set of seeds for every commit
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/sometimes.h"
#include "simulation.h"

namespace orlop::simulation {
namespace {

constexpr std::uint64_t kDefaultSeeds = 200;

// Seeds that fail when the defect beside them is put back. A change of the options or of the order
// of draws gives every seed another run: then they must be searched for again.
constexpr std::uint64_t kRegressions[] = {
    394,  // a channel stayed with the keeper when a kill came between detach and drop
};

// Rare states that a budget of seeds must reach, else it proves less than it seems to.
constexpr const char* kMustBeReached[] = {
    "a commit finds its key stored by another",
    "a commit is repeated",
    "a pinned group is given back",
    "a pinned group is restored",
    "a removed slot waits for its readers",
    "a slab is taken from another class",
    "a stopped writer's key is taken over",
    "attach: client left while the keeper was asked",
    "kept_commits_posted_again",
    "late_put_start_aborted",
    "plan_waits_for_its_copies",
    "recovery drops a group with a missing member",
    "sim: a client attached again without its channel",
    "sim: a forked child outlived its parent",
    "sim: a later writer committed first",
    "sim: a read plan outlived the server",
    "sim: a restart doomed half a group",
    "sim: a restart kept Prepared slots",
    "sim: a restart restored a retiring group",
    "sim: a slot is evicted",
    "sim: commit after a flush",
    "sim: group split",
    "sim: ledger full",
    "sim: no room for a request",
    "sim: no space",
    "sim: not admitted",
    "sim: over quota",
    "sim: pin budget",
    "sim: three steps inside each other",
    "the index grows during traffic",
};

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
  if (seeds < kDefaultSeeds) return;
  for (const char* name : kMustBeReached)
    EXPECT_GT(sometimes_count(name), 0U) << "no seed reached: " << name;
}

TEST_F(Simulation, Seeds_that_once_failed_are_clean) {
  for (const std::uint64_t seed : kRegressions) expect_clean(seed);
}

}  // namespace
}  // namespace orlop::simulation
