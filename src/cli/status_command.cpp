// SPDX-License-Identifier: Apache-2.0
// orlop status: what the node of this host is doing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/status_view.h"
#include "platform/runtime_dir.h"

namespace orlop::cli {
namespace {

struct Arguments {
  std::string socket;
  bool json = false;
};

ExitCode run(const Arguments& arguments) {
  const std::string socket = arguments.socket.empty()
                                 ? default_socket_place(RuntimeEnvironment::current()).socket_path
                                 : arguments.socket;
  const auto status = fetch_status(socket);
  if (!status) {
    const ExitCode code = report_error("status", status.error());
    if (code == ExitCode::kNoNode) {
      std::fprintf(stderr,
                   "start one with `orlop serve --capacity 64GiB`, or name its socket with "
                   "--socket or ORLOP_SOCKET\n");
    }
    return code;
  }
  if (arguments.json) {
    std::printf("%s\n", status->dump(2).c_str());
  } else {
    const Painter paint(wants_colour(STDOUT_FILENO));
    std::fputs(status_text(*status, socket, paint).c_str(), stdout);
  }
  return ExitCode::kOk;
}

}  // namespace

void register_status(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("status", "What the node of this host is doing");
  command->add_option("--socket", arguments->socket,
                      "of the node; default: $ORLOP_SOCKET, else the node's default place");
  command->add_flag("--json", arguments->json, "the node's own JSON object");
  command->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace orlop::cli
