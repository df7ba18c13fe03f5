// SPDX-License-Identifier: Apache-2.0
// That the measuring function measures what it is asked; never how fast.
#include "gpu/host_bench.h"

#include <gtest/gtest.h>

#include <set>

#include "base/bytes.h"

namespace orlop::gpu {
namespace {

TEST(HostBench, Rows_have_names_figures_and_the_bar) {
  std::vector<std::string> told;
  const auto rows = run_host_bench({.working_set_bytes = 20 * kMiB,
                                    .rounds = 1,
                                    .progress = [&](const auto& name) { told.push_back(name); }});
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_EQ(rows->size(), 10U);
  EXPECT_EQ(told.size(), rows->size());
  std::set<std::string> names;
  int barred = 0;
  for (const HostBenchRow& row : *rows) {
    names.insert(row.name);
    EXPECT_GT(row.gb_s, 0) << row.name;
    EXPECT_DOUBLE_EQ(row.ratio, row.gb_s / row.baseline_gb_s) << row.name;
    barred += row.bar == kHostBar;
  }
  EXPECT_EQ(names.size(), rows->size());
  EXPECT_EQ(barred, 8);
}

TEST(HostBench, Sets_without_a_value_are_refused) {
  EXPECT_EQ(run_host_bench({.working_set_bytes = 9 * kMiB - 1}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(run_host_bench({.rounds = 0}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace orlop::gpu
