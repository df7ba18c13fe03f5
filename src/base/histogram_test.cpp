// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/rng.h"

namespace orlop {
namespace {

static_assert(std::is_trivially_copyable_v<Histogram>);

std::uint64_t exact_percentile(const std::vector<std::uint64_t>& sorted, double percent) {
  const double rank = std::ceil(static_cast<double>(sorted.size()) * percent / 100);
  return sorted[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

TEST(Histogram, Empty_is_all_zero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.min(), 0U);
  EXPECT_EQ(h.max(), 0U);
  EXPECT_EQ(h.mean(), 0);
  EXPECT_EQ(h.percentile(50), 0U);
}

TEST(Histogram, Small_values_are_exact) {
  Histogram h;
  for (std::uint64_t v = 0; v < Histogram::kLinear; ++v) h.record(v);
  EXPECT_EQ(h.percentile(50), 15U);
  EXPECT_EQ(h.percentile(0), 0U);
  EXPECT_EQ(h.percentile(100), 31U);
  EXPECT_EQ(h.sum(), 31U * 32 / 2);
}

TEST(Histogram, One_value_is_reported_as_itself) {
  for (const std::uint64_t v : {33UL, 1'000'003UL, ~std::uint64_t{0}}) {
    Histogram h;
    h.record(v);
    for (const double p : {0.0, 1.0, 50.0, 99.9, 100.0}) EXPECT_EQ(h.percentile(p), v);
  }
}

TEST(Histogram, Every_power_of_two_is_within_the_error_bound) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t v : {power - 1, power, power + power / 3}) {
      Histogram h;
      h.record(0);
      h.record(v);
      h.record(~std::uint64_t{0});  // min and max do not clamp the middle one
      const double error = std::abs(static_cast<double>(h.percentile(50)) - static_cast<double>(v));
      EXPECT_LE(error, static_cast<double>(v) * Histogram::kMaxRelativeError) << v;
    }
  }
}

TEST(Histogram, Percentiles_of_random_values_are_within_the_error_bound) {
  Rng rng(11);
  Histogram h;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t v = rng.next() >> rng.uniform(60);  // all magnitudes
    values.push_back(v);
    h.record(v);
  }
  std::sort(values.begin(), values.end());
  for (const double p : {0.0, 0.1, 5.0, 50.0, 95.0, 99.0, 99.9, 100.0}) {
    const auto exact = static_cast<double>(exact_percentile(values, p));
    EXPECT_NEAR(static_cast<double>(h.percentile(p)), exact, exact * Histogram::kMaxRelativeError)
        << p;
  }
}

TEST(Histogram, Merge_equals_recording_all_into_one) {
  Rng rng(12);
  Histogram a;
  Histogram b;
  Histogram both;
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t v = rng.uniform(1'000'000);
    (i % 3 == 0 ? a : b).record(v);
    both.record(v);
  }
  a.merge(b);
  EXPECT_EQ(a.count(), both.count());
  EXPECT_EQ(a.sum(), both.sum());
  EXPECT_EQ(a.min(), both.min());
  EXPECT_EQ(a.max(), both.max());
  for (const double p : {1.0, 50.0, 99.0}) EXPECT_EQ(a.percentile(p), both.percentile(p));
}

TEST(Histogram, Full_bucket_halves_and_keeps_the_shape) {
  Histogram h;
  h.record_many(100, 4'000'000'000);
  h.record_many(1'000, 4'000'000'000);
  h.record_many(100, 4'000'000'000);
  EXPECT_EQ(h.count(), 12'000'000'000U);
  EXPECT_EQ(h.percentile(50) / 10, 10U);
  EXPECT_GT(h.percentile(90), 900U);
  Histogram twice = h;
  twice.merge(h);
  EXPECT_EQ(twice.count(), 2 * h.count());
  EXPECT_EQ(twice.percentile(50), h.percentile(50));
}

TEST(Histogram, Copy_is_a_snapshot_and_clear_empties) {
  Histogram h;
  h.record(5);
  const Histogram snapshot = h;
  h.clear();
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(snapshot.count(), 1U);
  EXPECT_EQ(snapshot.percentile(50), 5U);
}

}  // namespace
}  // namespace orlop
