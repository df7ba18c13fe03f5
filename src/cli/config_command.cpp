// SPDX-License-Identifier: Apache-2.0
// orlop config: what a node would run with and who said so; a file held against the table of
// options; the page and the sample file that are made from that table.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "cli/report.h"
#include "node/option_report.h"
#include "node/option_sources.h"

namespace orlop::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  node::OptionTexts texts;
  std::string file;
  bool json = false;
};

ExitCode report_mistakes(const char* name, const node::Settings& settings, bool json) {
  if (json) {
    const Json out{{"ok", false}, {"file", settings.file}, {"mistakes", settings.mistakes}};
    print_json(out);
    return ExitCode::kUsage;
  }
  return report_error(name, settings.error());
}

Json shown_json(const node::Settings& settings) {
  Json options = Json::object();
  for (const node::OptionRow& row : node::option_rows()) {
    options[row.key] = {{"value", row.get(settings.options)}, {"origin", settings.origin(row.key)}};
  }
  Json derived = Json::object();
  for (const node::DerivedValue& one : node::derived_values(settings)) {
    derived[one.name] = one.value;
  }
  return {{"ok", true},
          {"complete", settings.sized()},
          {"file", settings.file},
          {"options", std::move(options)},
          {"derived", std::move(derived)}};
}

void print_shown(const node::Settings& settings) {
  const Painter paint(wants_colour(STDOUT_FILENO));
  Table values("lll");
  for (const node::OptionRow& row : node::option_rows()) {
    const std::string origin = settings.origin(row.key);
    const bool given = origin != "default";
    values.row({row.key, paint(given ? Ink::kBold : Ink::kPlain, row.get(settings.options)),
                paint(given ? Ink::kPlain : Ink::kDim, origin)});
  }
  std::printf("%s\n", paint(Ink::kBold, "options").c_str());
  std::fputs(values.text().c_str(), stdout);
  if (!settings.sized()) {
    std::printf("\na node needs memory.capacity besides (--capacity 64GiB)\n");
    return;
  }
  Table derived("lrl");
  for (const node::DerivedValue& one : node::derived_values(settings)) {
    derived.row({one.name, one.is_bytes() ? format_bytes(one.value) : format_count(one.value),
                 one.meaning});
  }
  std::printf("\n%s\n", paint(Ink::kBold, "what follows").c_str());
  std::fputs(derived.text().c_str(), stdout);
}

ExitCode show(Arguments& arguments) {
  arguments.texts.environment = node::orlop_environment();
  const node::Settings settings = node::settle(arguments.texts);
  if (!settings.mistakes.empty()) return report_mistakes("config show", settings, arguments.json);
  if (arguments.json) {
    print_json(shown_json(settings));
  } else {
    print_shown(settings);
  }
  return ExitCode::kOk;
}

ExitCode check(const Arguments& arguments) {
  const node::Settings settings = node::settle_file(arguments.file);
  if (!settings.mistakes.empty()) return report_mistakes("config check", settings, arguments.json);
  if (arguments.json) {
    print_json(shown_json(settings));
  } else {
    std::printf("%s: good, %zu options set%s\n", arguments.file.c_str(), settings.origins.size(),
                settings.sized() ? "" : "; a node needs memory.capacity besides");
  }
  return ExitCode::kOk;
}

ExitCode print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? ExitCode::kFailed
                                                                          : ExitCode::kOk;
}

}  // namespace

void register_config(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("config", "A node's options: show, check, docs, sample");
  command->require_subcommand(1);

  CLI::App* one = command->add_subcommand(
      "show", "Effective values of a node's options, who gave each, and what follows");
  node::add_options(*one, arguments->texts);
  one->add_flag("--json", arguments->json, "one JSON object");
  one->callback([arguments, &chosen] { chosen = [arguments] { return show(*arguments); }; });

  one = command->add_subcommand("check", "Look for mistakes in a configuration file alone");
  one->add_option("FILE", arguments->file, "TOML file")->required();
  one->add_flag("--json", arguments->json, "one JSON object");
  one->callback([arguments, &chosen] { chosen = [arguments] { return check(*arguments); }; });

  one = command->add_subcommand("docs", "Print all options as a page (Markdown)");
  one->callback([&chosen] { chosen = [] { return print(node::configuration_page()); }; });

  one = command->add_subcommand("sample", "Print a configuration file that works as it is");
  one->callback([&chosen] { chosen = [] { return print(node::sample_file()); }; });
}

}  // namespace orlop::cli
