// SPDX-License-Identifier: Apache-2.0
// Names of errors, outcomes and reasons are an interface (logs, metrics, --json).
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "orlop/error.h"
#include "orlop/outcome.h"

namespace orlop {
namespace {

TEST(ErrorCode, Names_of_all_codes_are_distinct) {
  std::set<std::string_view> names;
  for (int code = 1; code <= static_cast<int>(ErrorCode::kClosed); ++code) {
    const std::string_view name = to_string(static_cast<ErrorCode>(code));
    EXPECT_NE(name, "unknown") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(to_string(ErrorCode::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(to_string(static_cast<ErrorCode>(999)), "unknown");
}

TEST(Outcome, Names_of_all_outcomes_are_distinct) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOutcomeCount; ++i) names.insert(to_string(static_cast<Outcome>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kOutcomeCount));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(to_string(Outcome::kGroupSplit), "group_split");
  EXPECT_EQ(to_string(static_cast<Outcome>(kOutcomeCount)), "unknown");
}

TEST(MissReason, Names_of_all_reasons_are_distinct) {
  std::set<std::string_view> names;
  for (int i = 0; i < kMissReasonCount; ++i) names.insert(to_string(static_cast<MissReason>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kMissReasonCount));
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(to_string(static_cast<MissReason>(kMissReasonCount)), "unknown");
}

TEST(Error, Fail_carries_code_and_message) {
  const Result<int> result = fail(ErrorCode::kLimit, "32 clients are attached");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kLimit);
  EXPECT_EQ(result.error().message, "32 clients are attached");
}

}  // namespace
}  // namespace orlop
