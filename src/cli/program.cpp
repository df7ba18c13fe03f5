// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command_tree.h"
#include "cli/status_fields.h"
#include "node/nearest_name.h"

namespace orlop::cli {
namespace {

// "Exit status: 0 ok, ...", broken before 80 columns.
std::string exit_status_footer() {
  std::string out = "Exit status:", line;
  for (const ExitCodeMeaning& row : kExitCodes) {
    const std::string entry = " " + std::to_string(to_int(row.code)) + " " + row.brief +
                              (&row == &std::end(kExitCodes)[-1] ? "." : ",");
    const std::size_t line_begin = out.rfind('\n') == std::string::npos ? 0 : out.rfind('\n') + 1;
    if (out.size() - line_begin + entry.size() > 79) out += "\n ";
    out += entry;
  }
  return out;
}

// Options of app and of its groups.
std::string wrong_choice_in(const CLI::App& app, const std::string& help) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> choices = choices_of(*option);
    if (choices.empty()) continue;
    for (const std::string& value : option->results()) {
      if (std::ranges::find(choices, value) != choices.end()) continue;
      return "'" + status_fields::masked(value) + "' is not one of " + joined(choices, ", ") +
             node::nearest_hint(value, choices, help);
    }
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!group->get_name().empty()) continue;
    if (auto words = wrong_choice_in(*group, help); !words.empty()) return words;
  }
  return {};
}

}  // namespace

std::string wrong_choice(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  return wrong_choice_in(*at, path + " --help");
}

void build_program(CLI::App& app, Action& chosen) {
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "this text; `orlop COMMAND --help` for a command's");
  app.footer(exit_status_footer());
  register_serve(app, chosen);
  register_demo(app, chosen);
  register_status(app, chosen);
  register_top(app, chosen);
  register_doctor(app, chosen);
  register_inspect(app, chosen);
  register_flush(app, chosen);
  register_remove(app, chosen);
  register_drain(app, chosen);
  register_replay(app, chosen);
  register_bench(app, chosen);
  register_config(app, chosen);
  register_completion(app, chosen);
  register_man(app, chosen);
  register_version(app, chosen);
}

}  // namespace orlop::cli
