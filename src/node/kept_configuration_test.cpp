// SPDX-License-Identifier: Apache-2.0
#include "node/kept_configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "node/option_file.h"
#include "node/option_test_file.h"
#include "platform/small_file.h"

namespace orlop::node {
namespace {

using ::testing::HasSubstr;

TEST(KeptConfiguration, Copy_stays_what_the_file_was) {
  const OptionTestFile file("[memory]\ncapacity = \"1GiB\"\n");
  const auto copy = copy_of_configuration(file.path());
  ASSERT_TRUE(copy) << copy.error().message;
  std::ofstream(file.path()) << "broken [";
  EXPECT_EQ(read_text_file(configuration_path(copy->get())).value(),
            "[memory]\ncapacity = \"1GiB\"\n");
  EXPECT_TRUE(read_option_file(file.path(), configuration_path(copy->get())).mistakes.empty());
  EXPECT_FALSE(read_option_file(file.path()).mistakes.empty());
  EXPECT_EQ(::write(copy->get(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(copy->get(), 0), -1);
}

TEST(KeptConfiguration, Mistakes_of_a_copy_are_told_of_its_file) {
  const OptionTestFile file("[memory]\ncapacitee = 1\n");
  const auto copy = copy_of_configuration(file.path());
  ASSERT_TRUE(copy) << copy.error().message;
  const auto read = read_option_file(file.path(), configuration_path(copy->get()));
  ASSERT_EQ(read.mistakes.size(), 1u);
  EXPECT_THAT(read.mistakes[0], HasSubstr(file.path()));
}

TEST(KeptConfiguration, What_cannot_be_copied_is_named) {
  EXPECT_THAT(copy_of_configuration("/nonexistent/x").error().message, HasSubstr("/nonexistent/x"));
  EXPECT_THAT(copy_of_configuration("/dev/null").error().message, HasSubstr("no regular file"));
  const OptionTestFile large(std::string(kMaxOptionFileBytes + 1, 'x'));
  EXPECT_EQ(copy_of_configuration(large.path()).error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace orlop::node
