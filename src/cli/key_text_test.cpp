// SPDX-License-Identifier: Apache-2.0
#include "cli/key_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(KeyText, Hex_is_bytes) {
  EXPECT_EQ(key_of_hex("00ff7A").value(), std::string("\0\xff\x7a", 3));
}

TEST(KeyText, What_is_no_key_is_refused_in_words) {
  EXPECT_THAT(key_of_hex("").error().message, HasSubstr("1 to 4096 bytes"));
  EXPECT_THAT(key_of_hex("abc").error().message, HasSubstr("3 digits"));
  EXPECT_THAT(key_of_hex("ab0x").error().message, HasSubstr("character 4"));
  EXPECT_THAT(key_of_hex("a ").error().message, HasSubstr("--text"));
  EXPECT_THAT(key_of_hex(std::string(8'194, 'a')).error().message, HasSubstr("4097"));
  EXPECT_TRUE(key_of_hex(std::string(8'192, 'a')).has_value());
  EXPECT_FALSE(key_of_text("").has_value());
}

TEST(KeyText, File_has_a_key_a_line) {
  const auto keys = parse_keys("# removed today\n00ff\r\n\ntext:page 7\ntext:#1\nAb");
  ASSERT_TRUE(keys.has_value()) << keys.error().message;
  EXPECT_THAT(*keys, ElementsAre(std::string("\0\xff", 2), "page 7", "#1", "\xab"));
  EXPECT_TRUE(parse_keys("").value().empty());
}

TEST(KeyText, Wrong_line_is_named) {
  EXPECT_THAT(parse_keys("00\n\nzz\n").error().message, HasSubstr("line 3: character 1"));
  EXPECT_THAT(parse_keys("text:\n").error().message, HasSubstr("line 1: a key has 1 to"));
}

TEST(KeyText, A_list_that_is_too_long_is_refused_with_the_limit) {
  std::string lines;
  for (std::size_t i = 0; i < kMaxKeysOfFile; ++i) lines += "00\n";
  EXPECT_EQ(parse_keys(lines).value().size(), 1'000'000u);
  EXPECT_THAT(parse_keys(lines + "00").error().message, HasSubstr("more than 1,000,000 keys"));
}

TEST(KeyText, A_file_without_an_end_is_refused_with_the_limit) {
  EXPECT_THAT(read_keys("/dev/zero").error().message, HasSubstr("larger than 128 MiB; split it"));
}

TEST(KeyText, Unreadable_file_is_a_usage_error) {
  EXPECT_EQ(read_keys("/nonexistent/keys").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_keys("/").error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace orlop::cli
