// SPDX-License-Identifier: Apache-2.0
#include "cli/admin_client.h"

#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

std::string nested(int depth) {
  const auto levels = static_cast<std::size_t>(depth);
  return R"({"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

TEST(AdminClient, Answers_are_objects) {
  EXPECT_EQ(parse_answer(R"({"a": [1, {"b": null}]})").value().dump(), R"({"a":[1,{"b":null}]})");
  EXPECT_FALSE(parse_answer(""));
  EXPECT_FALSE(parse_answer("[1]"));
  EXPECT_FALSE(parse_answer("<html>404</html>"));
  EXPECT_FALSE(parse_answer(R"({"a": 1)"));
  EXPECT_FALSE(parse_answer("{} {}"));
}

// Copying and printing JSON recurses: an answer of 100,000 brackets ended the program.
TEST(AdminClient, Answers_that_are_nested_too_deep_are_none) {
  EXPECT_TRUE(parse_answer(nested(kMostJsonDepth)));
  EXPECT_FALSE(parse_answer(nested(kMostJsonDepth + 1)));
  EXPECT_FALSE(parse_answer(nested(100'000)));
}

}  // namespace
}  // namespace orlop::cli
