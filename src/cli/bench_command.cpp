// SPDX-License-Identifier: Apache-2.0
// orlop bench: this machine's figures against the project's bars.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "cli/bench_gpu.h"
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

// Options of gpu_bench as they are handed on.
struct GpuTexts {
  GpuBenchArguments arguments;
  std::string working_set = "1GiB", out;
  std::vector<std::string> only;
  int device = 0;
  bool calibrate = false;
};

ExitCode run_gpu(const GpuTexts& texts) {
  GpuBenchArguments arguments = texts.arguments;
  const auto working_set = parse_bytes(texts.working_set);
  if (!working_set) return report_error("bench", working_set.error());
  arguments.working_set = *working_set;
  auto& words = arguments.program;
  words = {"--device", std::to_string(texts.device)};
  if (texts.calibrate) words.emplace_back("--calibrate");
  if (!texts.out.empty()) words.insert(words.end(), {"--out", texts.out});
  for (const std::string& group : texts.only) words.insert(words.end(), {"--only", group});
  return run_gpu_bench(arguments);
}

void register_gpu(CLI::App& command, Action& chosen) {
  auto texts = std::make_shared<GpuTexts>();
  CLI::App* gpu = command.add_subcommand(
      "gpu", "Copies between a GPU's paged cache and value memory against cudaMemcpy");
  gpu->add_flag("--json", texts->arguments.json, "one JSON object instead of the table");
  gpu->add_flag("--calibrate", texts->calibrate,
                "first measure which engine serves which batch, and keep that for this machine");
  gpu->add_option("--device", texts->device, "the GPU's number")->check(CLI::NonNegativeNumber);
  gpu->add_option("--only", texts->only, "groups of rows")->delimiter(',')->allow_extra_args(false);
  gpu->add_option("--out", texts->out, "also write the JSON to this file");
  gpu->add_flag("--host", texts->arguments.host, "only the engine for CPU memory");
  gpu->add_option("--working-set", texts->working_set, "bytes on each side, with --host")
      ->capture_default_str();
  gpu->footer("Measured by the program gpu_bench beside orlop; without it or a GPU as --host.");
  gpu->callback([texts, &chosen] { chosen = [texts] { return run_gpu(*texts); }; });
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
  register_gpu(*command, chosen);
}

}  // namespace orlop::cli
