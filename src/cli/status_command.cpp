// SPDX-License-Identifier: Apache-2.0
// orlop status: what the node of this host is doing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/units.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "cli/status_fields.h"
#include "cli/status_view.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

struct Arguments {
  std::string socket;
  std::string wait = "0s";
  bool json = false;
};

// Asks until the node is ready or the time is over; then the last answer is what it is.
Result<nlohmann::ordered_json> ready_status(const std::string& socket, MonoNs wait) {
  constexpr auto kBetween = std::chrono::milliseconds(20);
  const MonoNs deadline = monotonic_ns() + wait;
  for (;;) {
    auto status = fetch_status(socket);
    const bool ready = status && status_fields::text(*status, "state") == "ready";
    if (ready || monotonic_ns() >= deadline) return status;
    std::this_thread::sleep_for(kBetween);
  }
}

ExitCode run(const Arguments& arguments) {
  const auto wait = parse_wait(arguments.wait);
  if (!wait) return report_error("status", wait.error());
  const std::string socket = socket_or_default(arguments.socket);
  const auto status = ready_status(socket, *wait);
  if (!status) return report_node_error("status", status.error());
  if (arguments.json) {
    print_json(*status);
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
  add_socket_option(*command, arguments->socket);
  command->add_option("--wait", arguments->wait, "how long to wait for it to be ready (\"10s\")");
  command->add_flag("--json", arguments->json, "the node's own JSON object");
  command->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace orlop::cli
