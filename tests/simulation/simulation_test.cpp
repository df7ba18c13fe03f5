// SPDX-License-Identifier: Apache-2.0
// The simulator itself: runs repeat exactly, and what an oracle finds is told. The search over
// seeds is the program `sim` (CMakeLists.txt).
#include <gtest/gtest.h>

#include "batch.h"
#include "isolated_run.h"
#include "simulation.h"

namespace orlop::simulation {
namespace {

TEST(Simulation, Same_seed_replays_exactly) {
  const Finding first = run_isolated(3), again = run_isolated(3), other = run_isolated(4);
  ASSERT_FALSE(first.failed) << first.text;
  EXPECT_EQ(first.trace_hash, again.trace_hash);
  EXPECT_EQ(first.reached, again.reached);
  EXPECT_NE(first.trace_hash, other.trace_hash);
}

TEST(Simulation, A_run_does_not_depend_on_the_runs_before_it) {
  run_simulation(4);
  EXPECT_EQ(run_simulation(3).trace_hash, run_isolated(3).trace_hash);
}

TEST(Simulation, An_oracle_is_named_with_the_last_events) {
  const Search search = search_seeds(1, 100, PlantedBug::kFreeWithoutScan);
  ASSERT_TRUE(search.finding.failed);
  EXPECT_EQ(to_string(search.finding.oracle), to_string(Oracle::kS2)) << search.finding.message;
  EXPECT_NE(search.finding.text.find("last events"), std::string::npos);
}

TEST(Simulation, A_batch_runs_every_seed_once) {
  const Batch batch = run_batch({.seeds = {7}, .first = 1, .count = 3, .jobs = 2});
  EXPECT_EQ(batch.seeds, 4U);
  EXPECT_TRUE(batch.failures.empty());
  EXPECT_FALSE(batch.reached.empty());
  EXPECT_TRUE(batch.missing().empty()) << "four seeds need not reach everything";
}

TEST(Simulation, States_that_no_seed_reached_are_named) {
  Batch batch;
  batch.seeds = 1'000;
  EXPECT_FALSE(batch.missing().empty());
}

}  // namespace
}  // namespace orlop::simulation
