// SPDX-License-Identifier: Apache-2.0
// The real daemon against the simulated leaf-first LRU on the two public Mooncake traces (goldens:
// shared/sources/policy.md section 2, capacity 10,000 pages).
//
// The traces are not part of the repository: ORLOP_TRACES names their folder, else ../shared/traces
// beside the checkout is tried. The tests skip when they are absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ran_program.h"

namespace orlop {
namespace {

constexpr double kTolerance = 0.003;
constexpr MonoNs kLimit = 250 * kNsPerSecond;

std::filesystem::path trace_folder() {
  if (const char* folder = std::getenv("ORLOP_TRACES")) return folder;
  return std::filesystem::path(ORLOP_SOURCE_DIR) / ".." / "shared" / "traces";
}

void replay_reaches(const char* name, int pages, double hit_rate) {
  const auto file = trace_folder() / name;
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "NOT TESTED: " << file << " is not there; set ORLOP_TRACES to its folder";
  }
  CommandLine orlop;
  const Ran ran = orlop.run({"replay", file.string(), "--workers", "1", "--capacity-pages", "10000",
                             "--policy", "lru", "--json"},
                            kLimit);
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const auto found = nlohmann::json::parse(ran.out);
  EXPECT_EQ(found["pages"], pages);
  EXPECT_NEAR(found["hit_rate"].get<double>(), hit_rate, kTolerance);
  EXPECT_EQ(found["mismatches"], 0);
  EXPECT_EQ(found["touches_lost"], 0);
}

TEST(ReplayTrace, Conversation_reaches_the_simulated_hit_rate) {
  replay_reaches("conversation_trace.jsonl", 288'500, 0.2116);
}

TEST(ReplayTrace, Synthetic_reaches_the_simulated_hit_rate) {
  replay_reaches("synthetic_trace.jsonl", 121'877, 0.4239);
}

}  // namespace
}  // namespace orlop
