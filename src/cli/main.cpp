// SPDX-License-Identifier: Apache-2.0
// The program `orlop`. Also the programs that it starts from /proc/self/exe: nodes (`orlop serve
// ...`), their servers (`orlop serve --server ...`) and the workers of demo, replay and bench.
#include <CLI/CLI.hpp>
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
#include "node/unknown_argument.h"

namespace orlop::cli {

namespace {

int parse_and_run(int argc, char** argv) {
  CLI::App app(kProgramDescription, "orlop");
  Action chosen;
  build_program(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::string unknown = node::unknown_argument(app);
    if (unknown.empty()) unknown = wrong_choice(app);
    if (unknown.empty()) {
      app.exit(error);
    } else {
      std::fprintf(stderr, "orlop: %s\n", unknown.c_str());
    }
    return to_int(ExitCode::kUsage);
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
