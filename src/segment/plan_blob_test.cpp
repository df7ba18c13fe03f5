// SPDX-License-Identifier: Apache-2.0
#include "segment/plan_blob.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace orlop::segment {
namespace {

TEST(PlanBlob, Bytes_are_header_and_one_word_a_value) {
  EXPECT_EQ(plan_blob_bytes(0), 16U);
  EXPECT_EQ(plan_blob_bytes(2000), 16'016U);
}

TEST(RangeAllocator, Ranges_are_aligned_and_lowest_first) {
  RangeAllocator ranges(1024);
  EXPECT_EQ(ranges.allocate(1), 0U);
  EXPECT_EQ(ranges.allocate(65), 64U);
  EXPECT_EQ(ranges.allocate(64), 192U);
  EXPECT_EQ(ranges.used(), 256U);
  ranges.free(64, 65);
  EXPECT_EQ(ranges.allocate(128), 64U);
}

TEST(RangeAllocator, Full_or_too_large_gives_nothing) {
  RangeAllocator ranges(128);
  EXPECT_FALSE(ranges.allocate(129).has_value());
  EXPECT_FALSE(ranges.allocate(~std::uint64_t{0}).has_value());
  EXPECT_TRUE(ranges.allocate(128).has_value());
  EXPECT_FALSE(ranges.allocate(0).has_value());
}

TEST(RangeAllocator, Empty_request_still_gets_its_own_place) {
  RangeAllocator ranges(256);
  const auto a = ranges.allocate(0), b = ranges.allocate(0);
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  ranges.free(*a, 0);
  ranges.free(*b, 0);
  EXPECT_EQ(ranges.used(), 0U);
}

TEST(RangeAllocator, Free_merges_with_both_neighbours) {
  RangeAllocator ranges(192);
  ASSERT_EQ(ranges.allocate(64), 0U);
  ASSERT_EQ(ranges.allocate(64), 64U);
  ASSERT_EQ(ranges.allocate(64), 128U);
  ranges.free(0, 64);
  ranges.free(128, 64);
  EXPECT_FALSE(ranges.allocate(128).has_value());
  ranges.free(64, 64);
  EXPECT_EQ(ranges.allocate(192), 0U);
}

TEST(RangeAllocator, Reset_frees_everything) {
  RangeAllocator ranges(256);
  ranges.allocate(100);
  ranges.reset();
  EXPECT_EQ(ranges.used(), 0U);
  EXPECT_EQ(ranges.allocate(256), 0U);
}

TEST(RangeAllocator, Random_use_never_overlaps_and_returns_to_one_range) {
  constexpr std::uint64_t kBytes = 64 * 256;
  RangeAllocator ranges(kBytes);
  std::map<std::uint64_t, std::uint64_t> held;
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    if (rng.chance(0.55)) {
      const std::uint64_t bytes = rng.between(1, 700);
      const auto offset = ranges.allocate(bytes);
      if (!offset) continue;
      const auto next = held.lower_bound(*offset);
      ASSERT_TRUE(next == held.end() || *offset + bytes <= next->first);
      ASSERT_TRUE(next == held.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= *offset);
      ASSERT_LE(*offset + bytes, kBytes);
      held.emplace(*offset, bytes);
    } else if (!held.empty()) {
      auto it = held.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(rng.uniform(held.size())));
      ranges.free(it->first, it->second);
      held.erase(it);
    }
  }
  for (const auto& [offset, bytes] : held) ranges.free(offset, bytes);
  EXPECT_EQ(ranges.used(), 0U);
  EXPECT_EQ(ranges.allocate(kBytes), 0U);
}

TEST(RangeAllocatorDeathTest, Range_freed_twice_stops_the_process) {
  RangeAllocator ranges(256);
  ranges.allocate(64);
  ranges.allocate(64);
  ranges.free(0, 64);
  EXPECT_DEATH(ranges.free(0, 64), "freed twice");
}

}  // namespace
}  // namespace orlop::segment
