// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace orlop::cli {
namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  if (option.get_positional()) {
    facts.names = {option.get_name(true, false)};
  } else {
    for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  }
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    facts.choices = choices_of(option);
    facts.value = type.substr(0, type.find_first_of(":{"));
    if (facts.value.empty()) facts.value = "TEXT";
  }
  facts.help = option.get_description();
  facts.standard = option.get_default_str();
  facts.required = option.get_required();
  return facts;
}

void add_options_of(const CLI::App& app, CommandFacts& facts) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? facts.positionals : facts.options).push_back(facts_of(*option));
  }
}

CommandFacts facts_of(const CLI::App& app, const std::string& parent) {
  CommandFacts facts;
  facts.name = app.get_name();
  facts.path = parent.empty() ? facts.name : parent + " " + facts.name;
  facts.help = app.get_description();
  facts.footer = app.get_footer();
  add_options_of(app, facts);
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (child->get_name().empty()) {
      add_options_of(*child, facts);  // an option group
    } else if (!child->get_group().empty()) {
      facts.children.push_back(facts_of(*child, facts.path));
    }
  }
  return facts;
}

void collect(const CommandFacts& command, std::vector<const CommandFacts*>& out) {
  out.push_back(&command);
  for (const CommandFacts& child : command.children) collect(child, out);
}

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  // CLI11 writes "TEXT:{bash,zsh,fish}" for a value that must be one of a set.
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return split(type.substr(open + 1, close - open - 1), ',');
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

CommandFacts command_tree(const CLI::App& app) {
  return facts_of(app, "");
}

std::vector<const CommandFacts*> all_commands(const CommandFacts& root) {
  std::vector<const CommandFacts*> all;
  collect(root, all);
  return all;
}

}  // namespace orlop::cli
