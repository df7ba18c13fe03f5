// SPDX-License-Identifier: Apache-2.0
// The program's commands and options as plain facts, read from the parser that takes them, so that
// completion, man page and tests cannot differ from what is parsed. Pure.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace orlop::cli {

struct OptionFacts {
  std::vector<std::string> names;    // "--json", "-h"; of a positional: its name
  std::string value;                 // "TEXT"; empty: a flag
  std::vector<std::string> choices;  // the values that are allowed, if they are few
  std::string help;
  std::string standard;  // default value as a text; empty: none said
  bool required = false;
};

struct CommandFacts {
  std::string name;  // "slots"
  std::string path;  // "orlop inspect slots"
  std::string help, footer;
  std::vector<OptionFacts> options, positionals;  // without hidden ones
  std::vector<CommandFacts> children;             // in the order of registration
};

// Option groups count as part of their command.
CommandFacts command_tree(const CLI::App& app);

// The values an option allows, if they are few; empty: any.
std::vector<std::string> choices_of(const CLI::Option& option);

// "a|b|c" with "|" between.
std::string joined(const std::vector<std::string>& words, const char* between);

// The tree as a list, parents before children.
std::vector<const CommandFacts*> all_commands(const CommandFacts& root);

}  // namespace orlop::cli
