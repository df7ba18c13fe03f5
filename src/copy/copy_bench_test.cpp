// SPDX-License-Identifier: Apache-2.0
// That the measuring function measures what it is asked; never how fast.
#include "copy/copy_bench.h"

#include <gtest/gtest.h>

#include <set>

namespace orlop {
namespace {

CopyBenchOptions quick() {
  CopyBenchOptions options;
  options.value_bytes = 4'096;
  options.cached_set_bytes = 16'384;
  options.working_set_bytes = 65'536 + 5;  // rounded down to whole values
  options.cached_turn_bytes = 65'536;
  options.cached_rounds = 1;
  options.memory_rounds = 1;
  return options;
}

TEST(CopyBench, One_row_a_kind_direction_and_set) {
  const auto rows = run_copy_bench(quick());
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->size(), 4 * CopyEngine::supported_kinds().size());
  std::set<std::string> names;
  for (const CopyBenchRow& row : *rows) {
    names.insert(row.name);
    EXPECT_GT(row.memcpy_gb_s, 0);
    EXPECT_GT(row.copy_gb_s, 0);
    EXPECT_DOUBLE_EQ(row.ratio, row.copy_gb_s / row.memcpy_gb_s);
    EXPECT_EQ(row.bar, copy_bench_bar(row.kind, row.cached));
  }
  EXPECT_EQ(names.size(), rows->size());
}

TEST(CopyBench, Chosen_kinds_only) {
  CopyBenchOptions options = quick();
  options.kinds = {CopyKind::kScalar};
  const auto rows = run_copy_bench(options);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->size(), 4U);
}

TEST(CopyBench, Bars_are_those_of_the_project) {
  EXPECT_EQ(copy_bench_bar(CopyKind::kAvx512, true), 0.8);
  EXPECT_EQ(copy_bench_bar(CopyKind::kAvx512, false), 1.2);
  EXPECT_EQ(copy_bench_bar(CopyKind::kAvx2, true), 0.7);
  EXPECT_EQ(copy_bench_bar(CopyKind::kAvx2, false), 1.05);
  EXPECT_EQ(copy_bench_bar(CopyKind::kScalar, false), 0);
}

TEST(CopyBench, Impossible_options_are_refused) {
  CopyBenchOptions no_value = quick();
  no_value.value_bytes = 0;
  CopyBenchOptions small_set = quick();
  small_set.working_set_bytes = small_set.value_bytes - 1;
  CopyBenchOptions no_rounds = quick();
  no_rounds.memory_rounds = 0;
  for (const CopyBenchOptions& options : {no_value, small_set, no_rounds}) {
    const auto rows = run_copy_bench(options);
    ASSERT_FALSE(rows.has_value());
    EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace orlop
