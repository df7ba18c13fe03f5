// SPDX-License-Identifier: Apache-2.0
#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace orlop {

// Buckets 0..kLinear-1 hold one value each. Above, the position of the top bit chooses a row of
// kLinear buckets and the kSubBits bits after it a bucket of the row.
std::size_t Histogram::bucket_of(std::uint64_t value) {
  if (value < kLinear) return value;
  const int shift = std::bit_width(value) - 1 - kSubBits;
  return static_cast<std::size_t>(shift) * kLinear + (value >> shift);
}

std::uint64_t Histogram::middle_of(std::size_t bucket) {
  if (bucket < kLinear) return bucket;
  const std::size_t shift = bucket / kLinear - 1;
  const std::uint64_t low = (kLinear + bucket % kLinear) << shift;
  const std::uint64_t width = std::uint64_t{1} << shift;
  return low + width / 2;
}

void Histogram::add(std::size_t bucket, std::uint64_t times) {
  constexpr std::uint64_t kFull = std::numeric_limits<std::uint32_t>::max();
  while (buckets_[bucket] + times > kFull) {
    for (std::uint32_t& n : buckets_) n /= 2;
    times = (times + 1) / 2;
  }
  buckets_[bucket] += static_cast<std::uint32_t>(times);
}

void Histogram::record_many(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  add(bucket_of(value), times);
  count_ += times;
  sum_ += value * times;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  constexpr std::uint64_t kFull = std::numeric_limits<std::uint32_t>::max();
  bool full = false;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    full = full || std::uint64_t{buckets_[i]} + other.buckets_[i] > kFull;
  }
  const std::uint32_t divisor = full ? 2 : 1;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] = buckets_[i] / divisor + other.buckets_[i] / divisor;
  }
  count_ += other.count_;
  sum_ += other.sum_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

double Histogram::mean() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
}

std::uint64_t Histogram::percentile(double percent) const {
  CHECK(percent >= 0 && percent <= 100);
  if (count_ == 0) return 0;
  if (percent == 0) return min_;
  if (percent == 100) return max_;
  // Ranks are counted in the buckets, not in count_: halving makes the two differ.
  std::uint64_t total = 0;
  for (const std::uint32_t n : buckets_) total += n;
  const auto rank = static_cast<std::uint64_t>(
      std::max(1.0, std::ceil(static_cast<double>(total) * percent / 100)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::clamp(middle_of(i), min_, max_);
  }
  return max_;
}

}  // namespace orlop
