// SPDX-License-Identifier: Apache-2.0
#include "segment/report_counters.h"

#include <gtest/gtest.h>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

ReportCounters counters(std::uint64_t n) {
  ReportCounters c;
  c.gets = n;
  c.bytes_written = 2 * n;
  c.misses[kMissReasonCount - 1] = 3 * n;
  c.outcomes[kOutcomeCount - 1] = 4 * n;
  c.get.counts[kLatencyBuckets - 1] = 5 * n;
  c.put.sum_ns = 6 * n;
  return c;
}

void expect_equal(const ReportCounters& a, const ReportCounters& b) {
  EXPECT_EQ(a.gets, b.gets);
  EXPECT_EQ(a.bytes_written, b.bytes_written);
  EXPECT_EQ(a.misses, b.misses);
  EXPECT_EQ(a.outcomes, b.outcomes);
  EXPECT_EQ(a.get.counts, b.get.counts);
  EXPECT_EQ(a.put.sum_ns, b.put.sum_ns);
}

TEST(ReportCounters, Come_back_from_the_page_as_they_were_stored) {
  TestChannel channel;
  ClientReport& page = channel.view().report();
  store_report(page, counters(7), {1, 2, 3, 4, 5});
  expect_equal(load_counters(page), counters(7));
  const ReportGauges gauges = load_gauges(page);
  EXPECT_EQ(gauges.attaches, 1U);
  EXPECT_EQ(gauges.open_read_plans, 2U);
  EXPECT_EQ(gauges.open_handles, 3U);
  EXPECT_EQ(gauges.oldest_read_plan, 4U);
  EXPECT_EQ(gauges.published, 5U);
}

TEST(ReportCounters, Fold_adds_what_grew_once) {
  ReportCounters highest, sum;
  fold(counters(10), highest, sum);
  fold(counters(10), highest, sum);
  fold(counters(15), highest, sum);
  expect_equal(sum, counters(15));
  expect_equal(highest, counters(15));
}

TEST(ReportCounters, Fold_of_a_counter_that_falls_adds_nothing_until_it_is_past_its_highest) {
  ReportCounters highest, sum;
  fold(counters(10), highest, sum);
  fold(counters(0), highest, sum);
  fold(counters(9), highest, sum);
  expect_equal(sum, counters(10));
  fold(counters(11), highest, sum);
  expect_equal(sum, counters(11));
}

TEST(ReportCounters, Sums_saturate) {
  ReportCounters highest, sum, other;
  ReportCounters forged;
  forged.gets = ~std::uint64_t{0};
  fold(forged, highest, sum);
  fold(counters(5), other, sum);  // another client
  EXPECT_EQ(sum.gets, ~std::uint64_t{0});
  EXPECT_EQ(sum.bytes_written, 10U);
}

TEST(ReportCounters, Grown_is_what_was_added) {
  expect_equal(grown(counters(8), counters(3)), counters(5));
}

TEST(LatencyCounts, Percentiles_are_within_a_factor_of_two) {
  LatencyCounts latency;
  EXPECT_EQ(latency.percentile(50), 0U);
  for (int i = 0; i < 99; ++i) latency.record(1'000);
  latency.record(10'000'000);
  EXPECT_EQ(latency.count(), 100U);
  EXPECT_EQ(latency.sum_ns, 10'099'000U);
  EXPECT_GE(latency.percentile(50), 512U);
  EXPECT_LE(latency.percentile(50), 2'000U);
  EXPECT_LE(latency.percentile(99), 2'000U);
  EXPECT_GE(latency.percentile(99.9), 5'000'000U);
  EXPECT_LE(latency.percentile(99.9), 20'000'000U);
  LatencyCounts slow;
  slow.record(100 * kNsPerSecond);
  EXPECT_EQ(slow.percentile(50), latency_bound(kLatencyBuckets - 2));
}

}  // namespace
}  // namespace orlop::segment
