// SPDX-License-Identifier: Apache-2.0
// orlop top: what the node of this host is doing, live.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json_parts.h"
#include "cli/node_target.h"
#include "cli/report.h"
#include "cli/top_history.h"
#include "cli/top_terminal.h"
#include "cli/top_view.h"
#include "platform/clock.h"
#include "platform/poll_wait.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kLeastInterval = 100 * kNsPerMs;
constexpr MonoNs kMostInterval = 3'600 * kNsPerSecond;
// Without a terminal everything is shown.
constexpr std::size_t kAllRows = 100'000;

struct Arguments {
  std::string socket;
  std::string interval = "1s";
  bool once = false;
  bool json = false;
};

void ask(TopHistory& history) {
  auto status = fetch_status(history.socket());
  if (status) {
    history.add(std::move(*status), monotonic_ns());
  } else {
    history.lose(status.error().message);
  }
}

void print_line(const TopHistory& history) {
  print_json(top_json(history, wall_time_text()), -1);
  std::fflush(stdout);
}

// An interruptible pause. False: interrupted, or the reader of our output has gone.
bool pause_for(MonoNs interval) {
  const MonoNs end = monotonic_ns() + interval;
  while (!interrupted() && monotonic_ns() < end) {
    // Short naps, because signals do not end wait_readable; nothing ever becomes readable here.
    (void)wait_readable(-1, std::min(end, monotonic_ns() + 50 * kNsPerMs));
  }
  return !interrupted() && std::ferror(stdout) == 0;
}

// Two looks, an interval apart, for the rates; without a node one.
ExitCode run_once(TopHistory& history, MonoNs interval, bool json) {
  ask(history);
  if (history.node()) {
    if (!pause_for(interval)) return ExitCode::kInterrupted;
    ask(history);
  }
  if (json) {
    print_line(history);
  } else {
    const Painter paint(wants_colour(STDOUT_FILENO));
    std::fputs(top_view(history, {terminal_width(STDOUT_FILENO), kAllRows}, paint).c_str(), stdout);
  }
  return history.node() ? ExitCode::kOk : ExitCode::kNoNode;
}

ExitCode run_lines(TopHistory& history, MonoNs interval) {
  do {
    ask(history);
    print_line(history);
  } while (pause_for(interval));
  return interrupted() ? ExitCode::kInterrupted : ExitCode::kOk;
}

ExitCode run_screen(TopHistory& history, MonoNs interval) {
  const Painter paint(wants_colour(STDOUT_FILENO));
  Terminal terminal(STDIN_FILENO, STDOUT_FILENO);
  for (;;) {
    ask(history);
    const MonoNs next = monotonic_ns() + interval;
    Terminal::Woken woken = Terminal::Woken::kResize;
    while (woken == Terminal::Woken::kResize) {
      terminal.draw(top_view(history, terminal.size(), paint));
      woken = terminal.wait(next);
    }
    if (woken == Terminal::Woken::kQuit) return ExitCode::kOk;
    if (woken == Terminal::Woken::kInterrupt) return ExitCode::kInterrupted;
  }
}

ExitCode run(const Arguments& arguments) {
  const auto interval = parse_duration(arguments.interval);
  if (!interval || *interval < kLeastInterval || *interval > kMostInterval) {
    std::fprintf(stderr, "orlop top: --interval '%s' is not a time from 100ms to 1h\n",
                 arguments.interval.c_str());
    return ExitCode::kUsage;
  }
  TopHistory history(socket_or_default(arguments.socket));
  if (!arguments.json && !arguments.once && is_terminal(STDOUT_FILENO)) {
    return run_screen(history, *interval);
  }
  catch_interrupts();
  if (arguments.json && !arguments.once) return run_lines(history, *interval);
  return run_once(history, *interval, arguments.json);
}

}  // namespace

void register_top(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("top", "Live: memory by tenant and state, hits, rates, clients (q ends)");
  command->add_option("--interval", arguments->interval, "between two looks, 100ms to 1h")
      ->capture_default_str();
  command->add_flag("--once", arguments->once,
                    "one screen as plain text, after one interval; as without a terminal");
  add_socket_option(*command, arguments->socket);
  command->add_flag("--json", arguments->json, "one JSON object a line and interval");
  command->callback([arguments, &chosen] { chosen = [arguments] { return run(*arguments); }; });
}

}  // namespace orlop::cli
