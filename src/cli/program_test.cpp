// SPDX-License-Identifier: Apache-2.0
// The whole program as its parser knows it: commands, completion scripts, man page, docs.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/command_tree.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "node/unknown_argument.h"

namespace orlop::cli {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { build_program(app_, chosen_); }
  CommandFacts tree() const { return command_tree(app_); }
  static const CommandFacts& at(const CommandFacts& root, const std::string& path) {
    for (const CommandFacts* command : all_commands(root))
      if (command->path == path) return *command;
    ADD_FAILURE() << "no command " << path;
    return root;
  }
  // line: arguments that are refused.
  static std::string said_about(const std::string& line) {
    CLI::App app(kProgramDescription, "orlop");
    Action chosen;
    build_program(app, chosen);
    EXPECT_THROW(app.parse(line), CLI::ParseError) << line;
    const std::string unknown = node::unknown_argument(app);
    return unknown.empty() ? wrong_choice(app) : unknown;
  }
  static std::string content(const char* path) {
    std::ifstream file(std::string(ORLOP_SOURCE_DIR "/") + path);
    EXPECT_TRUE(file) << path;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  CLI::App app_{kProgramDescription, "orlop"};
  Action chosen_;
};

std::vector<std::string> first_names(const std::vector<OptionFacts>& options) {
  std::vector<std::string> names;
  for (const OptionFacts& option : options) names.push_back(option.names.front());
  return names;
}

TEST_F(ProgramTest, Tree_has_commands_options_groups_and_choices) {
  const CommandFacts root = tree();
  const CommandFacts& key = at(root, "orlop inspect key");
  // --key, --text and --id are in an option group.
  EXPECT_THAT(first_names(key.options), Contains("--text"));
  EXPECT_THAT(first_names(key.options), Contains("--namespace"));
  EXPECT_EQ(at(root, "orlop inspect client").positionals.front().names.front(), "client");
  EXPECT_THAT(at(root, "orlop completion").positionals.front().choices,
              ElementsAre("bash", "zsh", "fish"));
  for (const OptionFacts& option : at(root, "orlop drain").options) {
    const bool flag = option.names.front() != "--wait" && option.names.front() != "--socket";
    EXPECT_EQ(option.value.empty(), flag) << option.names.front();
  }
}

TEST_F(ProgramTest, Hidden_commands_are_in_no_tree) {
  for (const CommandFacts root = tree(); const CommandFacts* command : all_commands(root))
    EXPECT_THAT(command->name, Not(HasSubstr("worker")));
}

// Commands that tell facts; the others start something or print a text for a machine already.
TEST_F(ProgramTest, Commands_that_tell_facts_take_json) {
  const std::set<std::string> without = {
      "orlop",        "orlop serve",       "orlop inspect",       "orlop man", "orlop completion",
      "orlop config", "orlop config docs", "orlop config sample", "orlop top"};
  for (const CommandFacts root = tree(); const CommandFacts* command : all_commands(root)) {
    if (without.contains(command->path) || !command->children.empty()) continue;
    EXPECT_THAT(first_names(command->options), Contains("--json")) << command->path;
  }
}

TEST_F(ProgramTest, Every_command_and_option_says_what_it_is) {
  for (const CommandFacts root = tree(); const CommandFacts* command : all_commands(root)) {
    EXPECT_FALSE(command->help.empty()) << command->path;
    for (const OptionFacts& option : command->options)
      EXPECT_FALSE(option.help.empty()) << command->path << " " << option.names.front();
  }
}

TEST_F(ProgramTest, Every_command_is_in_completion_man_page_and_docs) {
  const CommandFacts root = tree();
  const std::string bash = bash_completion(root), zsh = zsh_completion(root),
                    fish = fish_completion(root), page = man_page(root, "1.2.3"),
                    docs = content("docs/operations/cli.md");
  for (const CommandFacts* command : all_commands(root)) {
    if (command == &root) continue;
    EXPECT_THAT(bash, HasSubstr("\"" + command->path + "\") words="));
    EXPECT_THAT(zsh, HasSubstr("\"" + command->path + "\") entries="));
    EXPECT_THAT(fish, HasSubstr("'" + command->path + "'"));
    EXPECT_THAT(page, HasSubstr(".SS \"" + command->path + "\""));
    EXPECT_THAT(docs, AnyOf(HasSubstr("`" + command->path), HasSubstr("\n" + command->path)))
        << "docs/operations/cli.md";
  }
}

TEST_F(ProgramTest, Docs_have_every_section_once) {
  std::istringstream docs(content("docs/operations/cli.md"));
  std::set<std::string> seen;
  for (std::string line; std::getline(docs, line);) {
    if (line.starts_with("## ")) {
      EXPECT_TRUE(seen.insert(line).second) << line;
    }
  }
  EXPECT_THAT(seen, Contains("## status"));
}

TEST_F(ProgramTest, Every_exit_code_is_in_help_man_page_and_docs) {
  const CommandFacts root = tree();
  const std::string page = man_page(root, "1.2.3"), docs = content("docs/operations/cli.md");
  std::set<int> codes;
  for (const ExitCodeMeaning& row : kExitCodes) {
    const std::string number = std::to_string(to_int(row.code));
    EXPECT_TRUE(codes.insert(to_int(row.code)).second);
    EXPECT_THAT(root.footer, HasSubstr(number + " "));
    EXPECT_THAT(page, HasSubstr("\\fB" + number + "\\fR"));
    EXPECT_THAT(docs, HasSubstr("| " + number + " |"));
  }
  // Every error of the library has a code of the table.
  for (int code = 1; code <= static_cast<int>(ErrorCode::kClosed); ++code)
    EXPECT_TRUE(codes.contains(to_int(exit_code_of(static_cast<ErrorCode>(code)))));
}

// What main() says about arguments that the parser does not take.
TEST_F(ProgramTest, Wrong_names_and_values_are_told_with_the_nearest) {
  const std::pair<const char*, const char*> rows[] = {
      // --key and --keys-file are in an option group.
      {"remove --namespace 0 --kyes-file x",
       "unknown option --kyes-file; did you mean \"--keys-file\"?"},
      {"flush --al", "unknown option --al; did you mean \"--all\"?"},
      {"completion bahs", "'bahs' is not one of bash, zsh, fish; did you mean \"bash\"?"},
      {"completion powershell",
       "'powershell' is not one of bash, zsh, fish; `orlop completion --help`"},
  };
  for (const auto& [line, words] : rows) EXPECT_THAT(said_about(line), HasSubstr(words));
  EXPECT_EQ(said_about("completion"), "") << "the parser's own words are better";
}

TEST_F(ProgramTest, Help_fits_into_eighty_columns_at_its_foot) {
  std::istringstream lines(tree().footer);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(ManPage, Text_that_looks_like_roff_is_escaped) {
  CommandFacts root;
  root.name = root.path = "orlop";
  CommandFacts child;
  child.name = "x";
  child.path = "orlop x";
  child.help = ".SH not a section\n'quoted\nback\\slash --json";
  root.children.push_back(child);
  const std::string page = man_page(root, "1");
  EXPECT_THAT(page, HasSubstr("\\&.SH not a section\n"));
  EXPECT_THAT(page, HasSubstr("\\&'quoted\n"));
  EXPECT_THAT(page, HasSubstr("back\\eslash \\-\\-json\n"));
}

TEST(Completion, Help_texts_do_not_break_the_script) {
  CommandFacts root;
  root.name = root.path = "orlop";
  OptionFacts option;
  option.names = {"--it"};
  option.help = "it's \"that\" $(touch x); `y`\nsecond line";
  root.options.push_back(option);
  EXPECT_THAT(fish_completion(root), HasSubstr("-d 'it'\\''s \"that\" $(touch x); `y`'\n"));
  EXPECT_THAT(zsh_completion(root), HasSubstr("'--it:it'\\''s"));
  EXPECT_THAT(bash_completion(root), Not(HasSubstr("touch")));
}

}  // namespace
}  // namespace orlop::cli
