// SPDX-License-Identifier: Apache-2.0
// The program `orlop`. Also the programs that it starts from /proc/self/exe: nodes (`orlop serve
// ...`), their servers (`orlop serve --server ...`) and the workers of demo, replay and bench.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/bench_echo.h"
#include "cli/bench_worker.h"
#include "cli/command.h"
#include "cli/demo_worker.h"
#include "cli/program.h"
#include "cli/replay_worker.h"
#include "cli/serve_command.h"

namespace orlop::cli {

namespace {

bool has_command(const CLI::App& app, const std::string& name) {
  const auto all = app.get_subcommands([](const CLI::App*) { return true; });
  return std::ranges::any_of(all, [&name](const CLI::App* one) { return one->get_name() == name; });
}

int parse_and_run(int argc, char** argv) {
  CLI::App app(kProgramDescription, "orlop");
  Action chosen;
  build_program(app, chosen);
  if (argc > 1 && argv[1][0] != '-' && !has_command(app, argv[1])) {
    // CLI11 would only say that a subcommand is required.
    std::fprintf(stderr, "orlop: there is no command '%s'; see orlop --help\n", argv[1]);
    return to_int(ExitCode::kUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return to_int(app.exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage);
  }
  return to_int(chosen());
}

}  // namespace

int run_program(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (first == "serve") return serve_main({arguments.begin() + 1, arguments.end()});
  // Hidden: what demo, replay and bench start, with an argument made by themselves.
  if (first == "demo-worker" && arguments.size() == 2) return demo_worker_main(arguments[1]);
  if (first == "replay-worker" && arguments.size() == 2) return replay_worker_main(arguments[1]);
  if (first == "bench-echo" && arguments.size() == 1) return bench_echo_main();
  if (first == "bench-throughput-worker" && arguments.size() == 2) {
    return bench_throughput_worker_main(arguments[1]);
  }
  if (first == "bench-kill-worker" && arguments.size() == 2) {
    return bench_kill_worker_main(arguments[1]);
  }
  return parse_and_run(argc, argv);
}

}  // namespace orlop::cli

int main(int argc, char** argv) {
  return orlop::cli::run_program(argc, argv);
}
