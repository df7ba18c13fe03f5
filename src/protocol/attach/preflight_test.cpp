// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Preflight, Round_trip_keeps_fields) {
  const Preflight in{7, "1.2.3", {{"memory.capacity", "64GiB"}, {"memory.numa", "node:1"}}};
  const auto out = parse_preflight(format_preflight(in));
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->abi, 7u);
  EXPECT_EQ(out->version, "1.2.3");
  EXPECT_EQ(out->keeper_settings, in.keeper_settings);
}

TEST(Preflight, What_is_no_answer_is_refused) {
  const struct {
    std::string text;
    const char* said;
  } cases[] = {
      {"", "first line"},
      {"orlop 0.1.0\n", "first line"},
      {"orlop-preflight 1", "missing"},
      {"orlop-preflight 1\nabi 2\n", "missing"},
      {"orlop-preflight 1\nversion 1\n", "missing"},
      {"orlop-preflight 1\nabi two\nversion 1\n", "no number"},
      {"orlop-preflight 1\nabi 2x\nversion 1\n", "no number"},
      {"orlop-preflight 1\nabi 99999999999\nversion 1\n", "no number"},
      {"orlop-preflight 1\nabi 2\nversion 1\nkeeper capacity\n", "without a value"},
      {std::string(kMaxPreflightBytes + 1, 'x'), "too long"},
  };
  for (const auto& one : cases) {
    const auto out = parse_preflight(one.text);
    ASSERT_FALSE(out) << one.text;
    EXPECT_THAT(out.error().message, HasSubstr(one.said)) << one.text;
  }
}

TEST(Preflight, Lines_of_a_later_version_are_passed_over) {
  const auto out = parse_preflight("orlop-preflight 1\nabi 2\nwants moon\nversion 9\n");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->version, "9");
}

TEST(Preflight, Other_abi_is_refused_naming_both) {
  EXPECT_TRUE(same_abi({segment::kAbiVersion, "2.0", {}}, "1.0"));
  const auto refused = same_abi({segment::kAbiVersion + 1, "2.0", {}}, "1.0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kAbiMismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("2.0"));
  EXPECT_THAT(refused.error().message, HasSubstr("1.0"));
}

TEST(Preflight, Settings_that_differ_are_named_with_both_values) {
  const Preflight ours{1, "1", {{"memory.capacity", "64MiB"}, {"memory.touch", "on"}}};
  const Preflight theirs{1, "1", {{"memory.capacity", "96MiB"}, {"memory.touch", "on"}}};
  EXPECT_THAT(differing_settings(ours, theirs), ElementsAre("memory.capacity: 64MiB -> 96MiB"));
}

}  // namespace
}  // namespace orlop::protocol
