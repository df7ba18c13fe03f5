// SPDX-License-Identifier: Apache-2.0
// Divisors for the kernel. Its side of the division is two instructions, written again here; that
// the kernel uses them rightly is seen by the conformance suite on a device.
#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "gpu/cuda_move.h"

namespace orlop::gpu {
namespace {

constexpr std::uint32_t kMost = (std::uint32_t{1} << 31) - 1;  // of n

std::uint32_t divide(std::uint32_t n, FastDivision by) {
  const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * by.multiplier >> 32);
  return (high + n) >> by.shift;
}

// Wrong multipliers show first just before and at multiples of the divisor, and far up.
void expect_divides(std::uint32_t divisor, Rng& rng) {
  const FastDivision by = FastDivision::by(divisor);
  const std::uint32_t most_quotient = kMost / divisor;
  std::vector<std::uint32_t> quotients = {0, 1, 2, most_quotient / 2, most_quotient};
  for (int i = 0; i < 8; ++i) {
    quotients.push_back(static_cast<std::uint32_t>(rng.uniform(std::uint64_t{most_quotient} + 1)));
  }
  for (const std::uint32_t quotient : quotients) {
    const std::uint64_t multiple = std::uint64_t{quotient} * divisor;
    for (const std::uint64_t n : {multiple - 1, multiple, multiple + 1}) {
      if (n > kMost) continue;  // also 0 - 1
      const auto small = static_cast<std::uint32_t>(n);
      ASSERT_EQ(divide(small, by), small / divisor) << small << " / " << divisor;
    }
  }
  ASSERT_EQ(divide(kMost, by), kMost / divisor) << kMost << " / " << divisor;
}

TEST(FastDivision, Small_divisors_divide_everywhere) {
  Rng rng(3);
  for (std::uint32_t divisor = 1; divisor <= 20'000; ++divisor) {
    ASSERT_NO_FATAL_FAILURE(expect_divides(divisor, rng));
  }
}

TEST(FastDivision, Random_divisors_divide_everywhere) {
  Rng rng(4);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t bits = 1 + rng.uniform(31);
    ASSERT_NO_FATAL_FAILURE(
        expect_divides(static_cast<std::uint32_t>(1 + rng.uniform(std::uint64_t{1} << bits)), rng));
  }
}

TEST(FastDivision, Powers_of_two_and_their_neighbours_divide_everywhere) {
  Rng rng(5);
  for (unsigned shift = 1; shift <= 31; ++shift) {
    const std::uint32_t power = std::uint32_t{1} << shift;
    ASSERT_NO_FATAL_FAILURE(expect_divides(power - 1, rng));
    ASSERT_NO_FATAL_FAILURE(expect_divides(power, rng));
    if (shift == 31) continue;  // the largest divisor
    ASSERT_NO_FATAL_FAILURE(expect_divides(power + 1, rng));
  }
}

TEST(FastDivision, Every_dividend_of_a_page_of_rows_divides) {
  for (const std::uint32_t divisor : {1u, 3u, 7u, 24u, 72u, 576u, 1152u, 4095u}) {
    const FastDivision by = FastDivision::by(divisor);
    for (std::uint32_t n = 0; n < 200'000; ++n) ASSERT_EQ(divide(n, by), n / divisor);
  }
}

}  // namespace
}  // namespace orlop::gpu
