// SPDX-License-Identifier: Apache-2.0
#include "c_api/guard.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace orlop::c_api {
namespace {

TEST(Guard, Result_becomes_status_and_text) {
  EXPECT_EQ(guarded([]() -> Result<void> { return {}; }), ORLOP_OK);
  EXPECT_EQ(guarded([]() -> Result<void> { return fail(ErrorCode::kLimit, "keys: too many"); }),
            ORLOP_LIMIT);
  EXPECT_STREQ(last_error_text(), "keys: too many");
  EXPECT_EQ(guarded([]() -> Result<void> { return {}; }), ORLOP_OK);
  EXPECT_STREQ(last_error_text(), "keys: too many");  // a success leaves it
}

TEST(Guard, Exceptions_become_statuses) {
  const auto status_of = [](auto thrown) {
    return guarded([&]() -> Result<void> { throw thrown; });
  };
  EXPECT_EQ(status_of(std::bad_alloc()), ORLOP_NO_MEMORY);
  EXPECT_EQ(status_of(std::length_error("vector")), ORLOP_NO_MEMORY);
  EXPECT_EQ(status_of(std::runtime_error("what happened")), ORLOP_SYSTEM);
  EXPECT_STREQ(last_error_text(), "what happened");
  EXPECT_EQ(status_of(7), ORLOP_SYSTEM);
  EXPECT_EQ(guarded_value(5, []() -> int { throw std::bad_alloc(); }), 5);
}

TEST(Guard, Text_belongs_to_the_thread) {
  failed(ErrorCode::kLimit, "mine");
  std::string before, after;
  std::thread([&] {
    before = last_error_text();
    failed(ErrorCode::kLimit, "theirs");
    after = last_error_text();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_EQ(after, "theirs");
  EXPECT_STREQ(last_error_text(), "mine");
}

TEST(Guard, Long_text_is_cut_between_characters) {
  std::string text(kErrorTextBytes - 2, 'a');
  text += "\xc3\xa4\xc3\xa4";  // two characters of two bytes; one byte of the first would fit
  failed(ErrorCode::kLimit, text);
  EXPECT_EQ(last_error_text(), text.substr(0, kErrorTextBytes - 2));
  failed(ErrorCode::kLimit, text.substr(1));  // and now both
  EXPECT_EQ(last_error_text(), text.substr(1, kErrorTextBytes - 1));
}

}  // namespace
}  // namespace orlop::c_api
