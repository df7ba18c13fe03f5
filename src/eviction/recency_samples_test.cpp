// SPDX-License-Identifier: Apache-2.0
#include "eviction/recency_samples.h"

#include <gtest/gtest.h>

#include <set>

namespace orlop {
namespace {

TEST(RecencySamples, Short_list_is_known_exactly) {
  RecencySamples samples;
  const auto no_room_needed = [](std::uint32_t) { FAIL(); };
  for (std::uint32_t i = 1; i < RecencySamples::kSpread; ++i) {
    EXPECT_TRUE(samples.appended(i, 100 + i, i, no_room_needed));
  }
  EXPECT_EQ(samples.oldest(), 101u);
  samples.erase(1);
  EXPECT_EQ(samples.oldest(), 102u);
  samples.erase(3);
  EXPECT_EQ(samples.oldest(), 102u);
}

TEST(RecencySamples, Last_sample_gone_leaves_its_stamp_as_the_guess) {
  RecencySamples samples;
  samples.appended(1, 7, 1, [](std::uint32_t) {});
  samples.erase(1);
  EXPECT_EQ(samples.oldest(), 7u);
}

TEST(RecencySamples, Long_list_keeps_a_bounded_spread_with_the_oldest) {
  RecencySamples samples;
  std::set<std::uint32_t> marked;
  for (std::uint32_t i = 1; i <= 100'000; ++i) {
    if (samples.appended(i, i, i, [&](std::uint32_t member) { marked.erase(member); })) {
      marked.insert(i);
    }
  }
  EXPECT_LE(samples.samples().size(), RecencySamples::kMaxSamples);
  EXPECT_GE(samples.samples().size(), RecencySamples::kMaxSamples / 4);
  EXPECT_EQ(samples.samples().size(), marked.size());
  EXPECT_EQ(samples.oldest(), 1u);
}

}  // namespace
}  // namespace orlop
