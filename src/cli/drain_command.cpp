// SPDX-License-Identifier: Apache-2.0
// orlop drain: the node admits no new puts, until `orlop drain --undo`. Through the rings of a
// client, so whoever may attach may drain, and a node without an admin address can be drained too.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "cli/status_fields.h"
#include "client/drain.h"
#include "platform/clock.h"

namespace orlop::cli {
namespace {

using detail::DrainState;
using protocol::DrainMode;
using status_fields::Json;

constexpr auto kBetweenQuestions = std::chrono::milliseconds(50);

struct Arguments {
  std::string socket;
  std::string wait;  // empty: not asked for
  bool undo = false, json = false;
};

bool is_quiet(const DrainState& state) {
  return state.open_puts == 0 && state.held_pages == 0;
}

// Until nothing is open, the time is over or Ctrl-C.
Result<DrainState> wait_until_quiet(const Client& client, DrainState state, MonoNs wait) {
  const MonoNs deadline = monotonic_ns() + wait;
  while (!is_quiet(state) && !interrupted() && monotonic_ns() < deadline) {
    std::this_thread::sleep_for(kBetweenQuestions);
    const auto again = detail::drain_node(client, DrainMode::kAsk);
    if (!again) return again;
    state = *again;
  }
  return state;
}

// Clients of a status that read or write now.
Json holders(const Json& status) {
  Json all = Json::array();
  for (const Json& client : status_fields::array_at(status, "clients")) {
    if (status_fields::number(client, "open_puts") == 0 &&
        status_fields::number(client, "pinned_pages") == 0)
      continue;
    Json one;
    for (const char* field : {"client", "name", "pid", "open_puts", "prepared_bytes",
                              "pinned_pages", "pinned_bytes", "oldest_put_seconds"})
      one[field] = status_fields::at(client, field);
    all.push_back(std::move(one));
  }
  return all;
}

std::string holders_text(const Json& all) {
  Table table("lrrr");
  for (const Json& one : all) {
    table.row({"client " + std::to_string(status_fields::number(one, "client")) + " '" +
                   status_fields::text(one, "name") + "', pid " +
                   std::to_string(status_fields::number(one, "pid")),
               status_fields::count(one, "open_puts") + " open puts",
               status_fields::count(one, "pinned_pages") + " pages read",
               status_fields::bytes(one, "pinned_bytes")});
  }
  return table.text();
}

void show(const DrainState& state, const std::string& socket, const Arguments& arguments) {
  const bool quiet = is_quiet(state);
  Json who = Json::array();
  bool known = true;
  if (!quiet) {
    const auto status = fetch_status(socket);
    known = status.has_value();
    if (known) who = holders(*status);
  }
  if (arguments.json) {
    const Json out = {{"draining", state.draining},
                      {"open_puts", state.open_puts},
                      {"held_pages", state.held_pages},
                      {"quiet", quiet},
                      {"holders", known ? who : Json(nullptr)}};
    print_json(out);
    return;
  }
  const Painter paint(wants_colour(STDOUT_FILENO));
  std::printf("%s\n", state.draining
                          ? paint(Ink::kWarning, "draining: new puts are not admitted").c_str()
                          : paint(Ink::kGood, "not draining: puts are admitted").c_str());
  if (quiet) {
    std::puts("  no put is open and nothing is being read");
    return;
  }
  std::printf("  %s puts are open, %s pages are being read\n",
              format_count(state.open_puts).c_str(), format_count(state.held_pages).c_str());
  std::fputs(known ? holders_text(who).c_str()
                   : "  who holds them cannot be said: the node has no admin address\n",
             stdout);
}

ExitCode run(const Arguments& arguments) {
  const bool waits = !arguments.wait.empty();
  const auto wait = waits ? parse_wait(arguments.wait) : Result<MonoNs>(0);
  if (!wait) return report_error("drain", wait.error());
  const std::string socket = socket_or_default(arguments.socket);
  auto client = attach("orlop drain", socket);
  if (!client) return report_node_error("drain", client.error());
  if (waits) catch_interrupts();
  auto state = detail::drain_node(*client, arguments.undo ? DrainMode::kEnd : DrainMode::kBegin);
  if (state && waits) state = wait_until_quiet(*client, *state, *wait);
  if (!state) return report_node_error("drain", state.error());
  show(*state, socket, arguments);
  if (interrupted()) return ExitCode::kInterrupted;
  return waits && !is_quiet(*state) ? ExitCode::kBad : ExitCode::kOk;
}

}  // namespace

void register_drain(CLI::App& app, Action& chosen) {
  auto a = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("drain", "Admit no new puts; reads and puts under way go on");
  add_socket_option(*command, a->socket);
  CLI::Option* wait = command->add_option(
      "--wait", a->wait,
      "seconds (or \"500ms\", \"2m\") to wait until no put is open and nothing is read; status 1 "
      "if something still is");
  command->add_flag("--undo", a->undo, "admit puts again")->excludes(wait);
  command->add_flag("--json", a->json, "JSON instead of text");
  command->callback([a, &chosen] { chosen = [a] { return run(*a); }; });
}

}  // namespace orlop::cli
