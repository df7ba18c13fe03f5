// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_redis_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

constexpr const char* kSevenOutput =
    "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\"\n"
    "\"SET\",\"190839.69\",\"0.633\",\"0.208\",\"0.615\"\n"
    "\"GET\",\"250000.00\",\"0.480\",\"0.160\",\"0.471\"\n";

TEST(RedisOutput, Finds_the_row_of_a_test) {
  EXPECT_DOUBLE_EQ(redis_requests_per_second(kSevenOutput, "SET").value(), 190839.69);
  EXPECT_DOUBLE_EQ(redis_requests_per_second(kSevenOutput, "GET").value(), 250000.0);
}

TEST(RedisOutput, Old_form_without_header_is_read) {
  EXPECT_DOUBLE_EQ(redis_requests_per_second("\"SET\",\"5.50\"", "SET").value(), 5.5);
}

TEST(RedisOutput, Missing_or_spoilt_row_is_an_error_that_quotes) {
  for (const char* text : {"", "Could not connect to Redis", "\"SET\"\n", "\"SET\",\"fast\"\n",
                           "\"SET\",\"0.00\"\n", "\"SET\",\"12", "SET,12.5\n"}) {
    const auto rate = redis_requests_per_second(text, "SET");
    ASSERT_FALSE(rate) << text;
    EXPECT_EQ(rate.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(rate.error().message, ::testing::HasSubstr(text));
  }
}

}  // namespace
}  // namespace orlop::cli
