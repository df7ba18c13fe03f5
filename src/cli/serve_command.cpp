// SPDX-License-Identifier: Apache-2.0
#include "cli/serve_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/command.h"
#include "node/keeper.h"
#include "node/node_main.h"

namespace orlop::cli {

int serve_main(std::vector<std::string> arguments) {
  const bool server_role = std::ranges::find(arguments, "--server") != arguments.end();
  const int status = node::node_main({"orlop", "serve"}, std::move(arguments));
  if (server_role) return status;
  switch (status) {
    case node::kExitOk:
      return to_int(ExitCode::kOk);
    case node::kExitBadConfiguration:
      return to_int(ExitCode::kUsage);
    default:
      return to_int(ExitCode::kRefused);
  }
}

// For the list of subcommands only.
void register_serve(CLI::App& app, Action&) {
  app.add_subcommand("serve", "Run a node in the foreground; options: orlop serve --help");
}

}  // namespace orlop::cli
