// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "copy/copy_bench.h"

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;

TEST(BenchRows, Have_distinct_names) {
  std::set<std::string_view> names;
  for (const BenchRow& row : local_bench_rows()) EXPECT_TRUE(names.insert(row.name).second);
}

TEST(BenchRows, Copy_rows_have_the_bars_of_the_copy_bench) {
  for (const BenchRow& row : local_bench_rows()) {
    if (!row.name.starts_with("copy_")) continue;
    const auto kind = row.name.starts_with("copy_avx512") ? CopyKind::kAvx512 : CopyKind::kAvx2;
    EXPECT_EQ(row.bar, copy_bench_bar(kind, row.name.ends_with("cached"))) << row.name;
  }
}

TEST(BenchOnly, Names_and_their_beginnings_are_known_others_are_refused) {
  EXPECT_TRUE(check_only({}));
  EXPECT_TRUE(check_only({"put1_a", "copy", "plan_2000"}));
  for (const char* wrong : {"", "speed", "put1_ax"}) {
    const auto checked = check_only({wrong});
    ASSERT_FALSE(checked) << wrong;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(checked.error().message, HasSubstr("put1_a"));
  }
}

TEST(BenchRun, Reports_in_the_order_of_the_table_what_was_set_missed_or_skipped) {
  Progress quiet(2, "test", true);
  const BenchOptions options{.quick = true,
                             .only = {"put1_", "copy_avx2_put_cached", "plan_2000_4m"}};
  BenchRun run(options, quiet);
  EXPECT_TRUE(run.wants("put1_b"));
  EXPECT_FALSE(run.wants("put128_a"));
  EXPECT_EQ(run.pick(5, 1), 1);
  run.set("put1_a", 1.5, "sides");
  run.set("plan_2000_4m", 1.0, "");
  run.skip("copy_avx2_put_cached", "this CPU has no avx2");
  const std::string_view rows[] = {"put1_a", "put1_b", "copy_avx2_put_cached"};
  run.miss_unset(rows, "the node did not start");
  const BenchReport report = run.report();
  ASSERT_EQ(report.bars.size(), 3u);
  EXPECT_EQ(report.bars[0].name, "plan_2000_4m");
  EXPECT_EQ(report.bars[1].name, "put1_a");
  EXPECT_EQ(report.bars[1].value, 1.5);
  EXPECT_EQ(report.bars[2].name, "put1_b");
  EXPECT_FALSE(report.bars[2].value);
  EXPECT_EQ(report.bars[2].note, "the node did not start");
  ASSERT_EQ(report.remarks.size(), 1u);
  EXPECT_THAT(report.remarks[0], HasSubstr("no avx2"));
}

}  // namespace
}  // namespace orlop::cli
