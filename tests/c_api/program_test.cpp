// SPDX-License-Identifier: Apache-2.0
// Whole programs on liborlop.so against a real node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon.h"
#include "shell.h"

namespace orlop::c_api_test {
namespace {

using process_test::Daemon;
using process_test::TemporaryFolder;
using ::testing::HasSubstr;

class CPrograms : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(daemon_.wait_serving()) << daemon_.log(); }
  Said run(const std::string& program) { return shell(program + " " + daemon_.socket()); }

  TemporaryFolder folder_;
  Daemon daemon_{folder_.path()};
};

void expect_example_output(const Said& said, const char* outcome) {
  EXPECT_EQ(said.status, 0) << said.text;
  for (const std::string& words :
       {std::string("put  page0: ") + outcome, std::string("put  page3: ") + outcome,
        std::string("have 4 of 4 pages"), std::string("get  4 of 4 pages"),
        std::string("hits 4 of 4 keys asked")})
    EXPECT_THAT(said.text, HasSubstr(words));
}

TEST_F(CPrograms, Example_puts_and_gets) {
  expect_example_output(run(EXAMPLE_C), "stored");
  expect_example_output(run(EXAMPLE_C), "exists");  // of another process
}

TEST_F(CPrograms, Pages_example_backs_up_and_restores) {
  for (const char* outcome : {"stored", "exists"}) {  // the second time of another process
    const Said said = run(PAGES_EXAMPLE_C);
    EXPECT_EQ(said.status, 0) << said.text;
    for (const std::string& words :
         {std::string("a value has 32768 bytes"), std::string("engine host"),
          std::string("backup  page 17: ") + outcome, std::string("restore layer 1 is here"),
          std::string("restored 4 of 4 pages")})
      EXPECT_THAT(said.text, HasSubstr(words));
  }
}

TEST_F(CPrograms, Cpp_example_puts_and_gets) {
  const Said said = run(EXAMPLE_CPP);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("put  stored"));
  EXPECT_THAT(said.text, HasSubstr("get  4 of 4 pages"));
}

// Their descriptors agree in every field, also where one has the struct's default and the other the
// JSON's, so they share pages.
TEST_F(CPrograms, C_reads_what_cpp_has_put) {
  EXPECT_EQ(run(EXAMPLE_CPP).status, 0);
  expect_example_output(run(EXAMPLE_C), "exists");
}

TEST_F(CPrograms, Threads_share_a_client) {
  const Said said = run(THREADS_C);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("every byte was right"));
  EXPECT_EQ(daemon_.metric("orlop_prepared_bytes"), 0);
}

TEST_F(CPrograms, Unloading_with_an_open_client_does_no_harm) {
  const Said said = run(std::string(UNLOAD_C) + " " + LIBORLOP);
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("unloaded"));
}

TEST(CExample, Names_what_is_wrong_without_a_node) {
  const TemporaryFolder folder;
  const std::string socket = folder.path() + "/nobody.sock";
  const Said said = shell(EXAMPLE_C " " + socket + " 100");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.text, HasSubstr("wait_ready: deadline"));
  EXPECT_THAT(said.text, HasSubstr(socket));
}

// The header and the examples are C99 for whoever compiles them.
class CCompilers : public ::testing::TestWithParam<const char*> {};

TEST_P(CCompilers, Take_the_examples_without_a_warning) {
  const std::string compiler = GetParam();
  if (shell("command -v " + compiler).status != 0) GTEST_SKIP() << compiler << " is not installed";
  const TemporaryFolder folder;
  for (const std::string example : {"orlop_example.c", "orlop_pages_example.c"}) {
    const Said said = shell(compiler +
                            " -std=c99 -Wall -Wextra -pedantic -Werror -I" ORLOP_SOURCE_DIR
                            "/include -c " ORLOP_SOURCE_DIR "/examples/c/" +
                            example + " -o " + folder.path() + "/example.o");
    EXPECT_EQ(said.status, 0) << said.text;
  }
  // And as the first header of a C++ program.
  const std::string cpp = compiler == "gcc" ? "g++" : "clang++-19";
  const Said included = shell("echo '#include <orlop/orlop.h>' | " + cpp +
                              " -std=c++17 -Wall -Wextra -pedantic -Werror -I" ORLOP_SOURCE_DIR
                              "/include -fsyntax-only -x c++ -");
  EXPECT_EQ(included.status, 0) << included.text;
}

INSTANTIATE_TEST_SUITE_P(Both, CCompilers, ::testing::Values("gcc", "clang-19"),
                         [](const auto& compiler) {
                           return std::string(compiler.param == std::string("gcc") ? "gcc"
                                                                                   : "clang");
                         });

}  // namespace
}  // namespace orlop::c_api_test
