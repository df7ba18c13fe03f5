// SPDX-License-Identifier: Apache-2.0
// Latency histogram: counts of unsigned 64-bit values (nanoseconds) in log-linear buckets.
//
// Guarantees:
//   * record() is a few instructions and never allocates; the object is at most 8 KiB and is
//     trivially copyable (a snapshot is an assignment);
//   * percentile() is within kMaxRelativeError of a recorded value of that rank; values below
//     kLinear are exact; count, min, max and sum are exact (sum wraps at 2^64);
//   * a histogram never stops counting: when a bucket's 32 bits are full, all buckets are halved,
//     which keeps the percentiles and gives older values less weight.
// Thread: none; one histogram a thread, merged by the reader of their copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace orlop {

class Histogram {
 public:
  // 32 buckets per power of two: a bucket is 1/32 of its lower bound wide, and its middle is
  // reported, so the error is at most 1/64.
  static constexpr int kSubBits = 5;
  static constexpr std::uint64_t kLinear = std::uint64_t{1} << kSubBits;
  static constexpr double kMaxRelativeError = 1.0 / 64;

  void record(std::uint64_t value) { record_many(value, 1); }
  void record_many(std::uint64_t value, std::uint64_t times);
  void merge(const Histogram& other);
  void clear() { *this = Histogram{}; }

  std::uint64_t count() const { return count_; }
  std::uint64_t sum() const { return sum_; }
  // 0 when empty, like percentile().
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  double mean() const;

  // percent in [0, 100]; 0 gives min(), 100 gives max(). The value of rank ceil(percent * count).
  std::uint64_t percentile(double percent) const;

 private:
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) * kLinear;

  static std::size_t bucket_of(std::uint64_t value);
  static std::uint64_t middle_of(std::size_t bucket);
  void add(std::size_t bucket, std::uint64_t times);

  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
  std::array<std::uint32_t, kBuckets> buckets_{};
};

static_assert(sizeof(Histogram) <= 8 * 1024);

}  // namespace orlop
