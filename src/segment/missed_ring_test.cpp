// SPDX-License-Identifier: Apache-2.0
#include "segment/missed_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

class MissedRingTest : public testing::Test {
 protected:
  void write(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i, ++written_)
      write_missed(channel_.view(), {{written_, ~written_}, NamespaceRow{7}});
  }
  std::vector<std::uint64_t> drain(std::uint32_t limit, std::uint32_t* lost) {
    std::vector<std::uint64_t> keys;
    *lost = reader_.drain(limit, [&](const MissedKey& missed) {
      EXPECT_EQ(missed.key.hi, ~missed.key.lo);
      EXPECT_EQ(missed.row, NamespaceRow{7});
      keys.push_back(missed.key.lo);
    });
    return keys;
  }
  TestChannel channel_;
  MissedReader reader_{channel_.view()};
  std::uint64_t written_ = 0;
  std::uint32_t lost_ = 0;
};

TEST_F(MissedRingTest, Drains_in_order_and_at_most_the_limit) {
  EXPECT_FALSE(reader_.pending());
  write(5);
  EXPECT_TRUE(reader_.pending());
  EXPECT_EQ(drain(3, &lost_), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(drain(3, &lost_), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_FALSE(reader_.pending());
}

TEST_F(MissedRingTest, Overflow_keeps_the_newest_and_counts_the_lost) {
  write(3 * kMissedCells);
  const auto keys = drain(~0U, &lost_);
  EXPECT_EQ(lost_, 2 * kMissedCells + 1);
  ASSERT_EQ(keys.size(), kMissedCells - 1);
  EXPECT_EQ(keys.front(), 2 * kMissedCells + 1);
  EXPECT_EQ(keys.back(), 3 * kMissedCells - 1);
}

TEST_F(MissedRingTest, Tail_wraps_at_2_to_the_32) {
  channel_.view().header().missed_tail.store(~0U - 1);
  reader_ = MissedReader(channel_.view());
  write(4);
  EXPECT_EQ(drain(~0U, &lost_), (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(lost_, 0U);
}

TEST_F(MissedRingTest, Cells_overwritten_during_the_drain_are_lost_not_torn) {
  write(10);
  std::vector<std::uint64_t> keys;
  const std::uint32_t lost = reader_.drain(10, [&](const MissedKey& missed) {
    if (keys.empty()) write(kMissedCells);  // laps the reader after its first cell
    keys.push_back(missed.key.lo);
  });
  EXPECT_EQ(keys[0], 0U);
  EXPECT_EQ(keys[1], 11U);  // 1..10 may be half overwritten
  EXPECT_EQ(lost, 10U);
}

// A client may store any tail; the drain stays inside its limit and the ring.
TEST_F(MissedRingTest, Any_tail_is_survived) {
  for (const std::uint32_t tail : {1U, kMissedCells, ~0U, 0x8000'0000U}) {
    channel_.view().header().missed_tail.store(tail);
    std::uint32_t calls = 0;
    reader_.drain(100, [&](const MissedKey&) { ++calls; });
    EXPECT_LE(calls, 100U);
  }
}

TEST(ReportedLatency, Buckets_are_powers_of_two_from_128_ns) {
  EXPECT_EQ(latency_bucket(0), 0U);
  EXPECT_EQ(latency_bucket(127), 0U);
  for (std::size_t b = 0; b + 1 < kLatencyBuckets; ++b) {
    EXPECT_EQ(latency_bucket(latency_bound(b) - 1), b);
    EXPECT_EQ(latency_bucket(latency_bound(b)), b + 1);
  }
  EXPECT_EQ(latency_bucket(kNever), kLatencyBuckets - 1);
  EXPECT_EQ(latency_bound(kLatencyBuckets - 1), kNever);
}

}  // namespace
}  // namespace orlop::segment
