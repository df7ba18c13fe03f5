// SPDX-License-Identifier: Apache-2.0
#include "eviction/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop {
namespace {

TEST(MakePolicy, Known_names_make_policies_of_that_name) {
  for (std::string_view name : policy_names()) {
    auto policy = make_policy(name, 100);
    ASSERT_TRUE(policy.has_value()) << name;
    EXPECT_EQ((*policy)->name(), name);
  }
}

TEST(MakePolicy, Unknown_name_is_an_error_that_lists_the_known_ones) {
  const auto policy = make_policy("fifo", 100);
  ASSERT_FALSE(policy.has_value());
  EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(policy.error().message, testing::HasSubstr("'fifo'"));
  for (std::string_view name : policy_names()) {
    EXPECT_THAT(policy.error().message, testing::HasSubstr(std::string(name)));
  }
}

}  // namespace
}  // namespace orlop
