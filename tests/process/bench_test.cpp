// SPDX-License-Identifier: Apache-2.0
// `orlop bench local` as a script meets it: the shape of its output, never its figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ran_program.h"

namespace orlop {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

constexpr MonoNs kBenchWait = 150 * kNsPerSecond;

TEST(Cli_bench, One_row_gives_one_bar_in_the_agreed_shape) {
  CommandLine orlop;
  const Ran ran =
      orlop.run({"bench", "local", "--quick", "--only", "put1_a", "--json"}, kBenchWait);
  const Json report = Json::parse(ran.out);  // and nothing else on stdout
  ASSERT_EQ(report.at("bars").size(), 1u) << ran.out;
  const Json& bar = report["bars"][0];
  EXPECT_EQ(bar.at("name"), "put1_a");
  ASSERT_TRUE(bar.at("value").is_number()) << ran.out << ran.err;
  EXPECT_GT(bar["value"].get<double>(), 0);
  EXPECT_EQ(bar.at("bar"), 2.0);
  ASSERT_TRUE(bar.at("ok").is_boolean());
  EXPECT_EQ(ran.status, bar["ok"].get<bool>() ? 0 : 1) << ran.err;
  EXPECT_TRUE(report.at("machine").is_string());
  EXPECT_TRUE(report.at("date").is_string());
  EXPECT_THAT(orlop.left_behind(), IsEmpty());
  EXPECT_THAT(orlop.living_processes(), IsEmpty());
}

TEST(Cli_bench, Unknown_row_is_a_usage_error_that_names_the_rows) {
  CommandLine orlop;
  const Ran ran = orlop.run({"bench", "local", "--only", "speed"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("speed"));
  EXPECT_THAT(ran.err, HasSubstr("put128_a"));
  EXPECT_EQ(ran.out, "");
}

}  // namespace
}  // namespace orlop
