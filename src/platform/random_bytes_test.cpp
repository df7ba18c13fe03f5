// SPDX-License-Identifier: Apache-2.0
#include "platform/random_bytes.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "platform/test_process.h"

namespace orlop {
namespace {

TEST(RandomBytes, Ids_differ_and_are_not_zero) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    auto id = random_id();
    ORLOP_ASSERT_OK(id);
    ASSERT_NE(*id, 0u);
    ASSERT_TRUE(seen.insert(*id).second);
  }
}

TEST(RandomBytes, Large_request_is_filled_to_the_end) {
  std::vector<std::byte> bytes(1 << 20);
  ORLOP_ASSERT_OK(fill_random(bytes));
  // A gap of 64 zero bytes has probability 2^-512.
  int zeros = 0;
  for (std::byte b : bytes) {
    zeros = b == std::byte{0} ? zeros + 1 : 0;
    ASSERT_LT(zeros, 64);
  }
}

TEST(RandomBytes, Nothing_asked_is_fine) {
  ORLOP_EXPECT_OK(fill_random({}));
}

}  // namespace
}  // namespace orlop
