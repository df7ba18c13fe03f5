// SPDX-License-Identifier: Apache-2.0
#include "node/unknown_argument.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "node/nearest_name.h"

namespace orlop::node {
namespace {

void add_option_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  // A subcommand without a name is a group of options.
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_name().empty()) add_option_names(*one, names);
  }
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!one->get_name().empty()) names.push_back(one->get_name());
  }
  return names;
}

}  // namespace

std::string unknown_argument(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const std::vector<std::string> left = at->remaining();
  if (left.empty()) return {};
  std::string whole = at->get_name();
  for (const CLI::App* up = at->get_parent(); up != nullptr; up = up->get_parent()) {
    whole = up->get_name() + " " + whole;
  }
  const std::string name = left[0].substr(0, left[0].find('='));
  if (name.starts_with("-")) {
    std::vector<std::string> names;
    add_option_names(*at, names);
    return "unknown option " + name + nearest_hint(name, names, whole + " --help");
  }
  const std::vector<std::string> commands = subcommand_names(*at);
  if (!commands.empty() && at->get_require_subcommand_min() > 0) {
    return "there is no command '" + whole + " " + name + "'" +
           nearest_hint(name, commands, whole + " --help");
  }
  return "unexpected argument '" + name + "'; `" + whole + " --help` lists what there is";
}

}  // namespace orlop::node
