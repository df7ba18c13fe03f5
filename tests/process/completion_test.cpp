// SPDX-License-Identifier: Apache-2.0
// The completion scripts and the manual page, read by the programs that are meant to read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "ran_program.h"

namespace orlop {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Output of a shell command line, both streams; status -1: could not be run.
struct Shell {
  int status = -1;
  std::string out;
};
Shell shell(const std::string& line) {
  Shell result;
  std::FILE* pipe = ::popen((line + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char part[4096];
  while (const std::size_t read = std::fread(part, 1, sizeof part, pipe))
    result.out.append(part, read);
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}
bool has_program(const char* name) {
  return shell(std::string("command -v ") + name).status == 0;
}

class CompletionTest : public ::testing::Test {
 protected:
  std::string script(const std::string& of) {
    const Ran ran = command.run({"completion", of});
    EXPECT_EQ(ran.status, 0) << ran.err;
    const std::string path = command.folder() + "/script." + of;
    std::ofstream(path) << ran.out;
    return path;
  }
  // What bash offers for the last of these words.
  std::vector<std::string> offered(const std::vector<std::string>& words) {
    std::string line = "source " + script("bash") + "; COMP_WORDS=(orlop";
    for (const std::string& word : words) line += " \"" + word + "\"";
    line += "); COMP_CWORD=" + std::to_string(words.size()) +
            "; _orlop; for one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done";
    const std::string path = command.folder() + "/ask";
    std::ofstream(path) << line;
    const Shell ran = shell("bash --norc --noprofile -u " + path);
    EXPECT_EQ(ran.status, 0) << ran.out;
    std::vector<std::string> offers;
    std::istringstream lines(ran.out);
    for (std::string one; std::getline(lines, one);) offers.push_back(one);
    return offers;
  }
  CommandLine command;
};

TEST_F(CompletionTest, Bash_completes_commands_options_and_values) {
  EXPECT_THAT(offered({"insp"}), ElementsAre("inspect"));
  EXPECT_THAT(offered({""}), Contains("drain"));
  EXPECT_THAT(offered({"inspect", ""}), Contains("namespaces"));
  EXPECT_THAT(offered({"inspect", "key", "--te"}), ElementsAre("--text"));
  EXPECT_THAT(offered({"status", "--js"}), ElementsAre("--json"));
  EXPECT_THAT(offered({"completion", "f"}), ElementsAre("fish"));
  EXPECT_THAT(offered({"nonsense"}), IsEmpty());
}

TEST_F(CompletionTest, Bash_leaves_the_value_of_an_option_to_file_names) {
  EXPECT_THAT(offered({"status", "--socket", ""}), IsEmpty());
  // A value that is called like a command does not change the command.
  EXPECT_THAT(offered({"status", "--socket", "drain", "--js"}), ElementsAre("--json"));
  EXPECT_THAT(offered({"status", "--socket", "drain", "--un"}), IsEmpty());
}

TEST_F(CompletionTest, Bash_knows_the_options_of_serve) {
  EXPECT_THAT(offered({"serve", "--cap"}), Contains("--capacity"));
  EXPECT_THAT(offered({"serve", "--keeper"}), IsEmpty());
}

TEST_F(CompletionTest, Other_shells_accept_their_scripts) {
  for (const char* name : {"bash", "zsh", "fish"}) {
    if (!has_program(name)) continue;
    const Shell checked = shell(std::string(name) + " -n " + script(name));
    EXPECT_EQ(checked.status, 0) << name << ": " << checked.out;
    EXPECT_EQ(checked.out, "") << name;
  }
}

class ManPageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran ran = command.run({"man"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    path = command.folder() + "/orlop.1";
    std::ofstream(path) << ran.out;
  }
  CommandLine command;
  std::string path;
};

TEST_F(ManPageTest, Groff_and_mandoc_have_nothing_against_it) {
  unsigned asked = 0;
  if (has_program("groff")) {
    const Shell ran = shell("groff -ww -man -Tutf8 -z " + path);
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "");
    ++asked;
  }
  if (has_program("mandoc")) {
    const Shell ran = shell("mandoc -Tlint -Wwarning " + path);
    EXPECT_EQ(ran.status, 0) << ran.out;
    ++asked;
  }
  if (asked == 0) GTEST_SKIP() << "neither groff nor mandoc is here";
}

TEST_F(ManPageTest, Man_shows_it) {
  if (!has_program("man")) GTEST_SKIP() << "no man here";
  const Shell ran = shell("MANPAGER=cat MANWIDTH=100 man -l " + path + " | col -b");
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("orlop inspect key"));
  EXPECT_THAT(ran.out, HasSubstr("--keys-file"));
  EXPECT_THAT(ran.out, HasSubstr("EXIT STATUS"));
  EXPECT_THAT(ran.out, HasSubstr("130"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\\f")));
}

}  // namespace
}  // namespace orlop
