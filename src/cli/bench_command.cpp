// SPDX-License-Identifier: Apache-2.0
// orlop bench: this machine's figures against the project's bars.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_run.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"

namespace orlop::cli {
namespace {

struct Arguments {
  BenchOptions options;
  bool json = false;
};

ExitCode run(const Arguments& arguments) {
  if (const auto known = check_only(arguments.options.only); !known) {
    return report_error("bench", known.error());
  }
  catch_interrupts();
  Progress progress(STDERR_FILENO, "bench", false);
  const auto report = run_local_bench(arguments.options, progress);
  progress.finish();
  if (!report) return report_failed_run("bench", report.error());
  if (arguments.json) {
    print_json(to_json(*report));
  } else {
    std::printf("%s", to_table(*report, Painter(wants_colour(STDOUT_FILENO))).c_str());
  }
  return report->ok() ? ExitCode::kOk : ExitCode::kBad;
}

}  // namespace

void register_bench(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure this machine against the bars");
  command->require_subcommand(1);
  CLI::App* local = command->add_subcommand("local", "The bars of one host, minutes long");
  local->add_flag("--json", arguments->json, "one JSON object instead of the table");
  local->add_flag("--quick", arguments->options.quick, "a look within a minute, no verdict");
  local->add_option("--only", arguments->options.only, "rows, or beginnings of their names")
      ->delimiter(',')
      ->allow_extra_args(false);
  local->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace orlop::cli
