// SPDX-License-Identifier: Apache-2.0
// The subcommands of `orlop`, one file each. A subcommand registers itself; when it was the one
// asked for, parsing leaves its action in `chosen`, and main runs it.
#pragma once

#include <functional>

#include "cli/exit_code.h"

namespace CLI {
class App;
}

namespace orlop::cli {

using Action = std::function<ExitCode()>;

void register_version(CLI::App& app, Action& chosen);
void register_serve(CLI::App& app, Action& chosen);
void register_status(CLI::App& app, Action& chosen);
void register_inspect(CLI::App& app, Action& chosen);
void register_flush(CLI::App& app, Action& chosen);
void register_remove(CLI::App& app, Action& chosen);
void register_drain(CLI::App& app, Action& chosen);
void register_doctor(CLI::App& app, Action& chosen);
void register_top(CLI::App& app, Action& chosen);
void register_demo(CLI::App& app, Action& chosen);
void register_replay(CLI::App& app, Action& chosen);
void register_bench(CLI::App& app, Action& chosen);
void register_config(CLI::App& app, Action& chosen);
// These two describe the whole of app when they run.
void register_completion(CLI::App& app, Action& chosen);
void register_man(CLI::App& app, Action& chosen);

// "orlop NAME: MESSAGE" on stderr; the error's exit code.
ExitCode report_error(const char* name, const Error& error);

// How a run that started processes of its own (demo, replay) ends with this error: interrupted
// (said by nobody, the user knows), usage and refused as ever; a worker that failed or a wait that
// took too long is the bad result that the run was there to find.
ExitCode report_failed_run(const char* name, const Error& error);

}  // namespace orlop::cli
