// SPDX-License-Identifier: Apache-2.0
#include "node/node_main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "node/exit_status.h"
#include "node/keeper.h"
#include "node/option_sources.h"
#include "node/option_table.h"
#include "node/server.h"
#include "node/unknown_argument.h"
#include "node/version.h"

namespace orlop::node {
namespace {

// A client costs 7 descriptors in the keeper and 7 in the server; the usual soft limit of 1,024
// would end at 140 clients.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void log_configuration(const NodeOptions& options) {
  std::string text;
  for (const auto& [key, value] : effective(options)) {
    text += (text.empty() ? "" : "; ") + key + " = " + value;
  }
  LOG_INFO("configuration", {"version", kVersion}, {"values", text});
}

// A message may have several lines, one for each mistake.
void report(const Error& error, const std::string& program) {
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "%s: %s (%s)\n", program.c_str(), line.c_str(),
                 std::string(to_string(error.code)).c_str());
  }
}

// What only a new keeper takes up: a new server reads the rest again.
bool is_keeper_setting(const std::string& key) {
  for (const char* one :
       {"node.socket", "node.admin", "node.restart_backoff", "node.restart_backoff_most",
        "node.stop_grace", "node.start_limit", "node.hang_limit"}) {
    if (key == one) return true;
  }
  return key.starts_with("memory.");
}

protocol::Preflight preflight_of(const NodeOptions& options) {
  protocol::Preflight preflight;
  preflight.version = kVersion;
  for (const auto& [key, value] : effective(options)) {
    if (is_keeper_setting(key)) preflight.keeper_settings.emplace_back(key, value);
  }
  return preflight;
}

int preflight_role(const NodeOptions& options) {
  const std::string text = protocol::format_preflight(preflight_of(options));
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? kExitFailed : kExitOk;
}

int keeper_role(const NodeOptions& options, const std::vector<std::string>& invocation,
                const std::vector<std::string>& arguments) {
  log_set_process("keeper");
  log_configuration(options);
  const auto command = [&](std::vector<std::string> role) {
    role.insert(role.begin(), invocation.begin(), invocation.end());
    role.insert(role.end(), arguments.begin(), arguments.end());
    return role;
  };
  const auto ran =
      run_keeper(options, {command({"--server", "--keeper-fd", std::to_string(kKeeperFdNumber)}),
                           command({"--preflight"}), preflight_of(options)});
  if (!ran) {
    report(ran.error(), joined(invocation));
    return exit_status_of(ran.error().code);
  }
  LOG_INFO("stopped");
  return kExitOk;
}

}  // namespace

int node_main(const std::vector<std::string>& invocation, std::vector<std::string> arguments) {
  const std::string program = joined(invocation);
  CLI::App app("Orlop node: owns this host's cache memory and serves the engines' workers",
               program);
  OptionTexts texts;
  bool server = false, preflight = false;
  int keeper_fd = -1;
  add_options(app, texts);
  app.set_version_flag("--version", std::string("orlop ") + kVersion);
  app.add_flag("--server", server)->group("");  // hidden: the keeper's word to its child
  app.add_option("--keeper-fd", keeper_fd)->group("");
  app.add_flag("--preflight", preflight)->group("");  // hidden: a keeper asks before an upgrade
  // Of a keeper, people and scripts read the status; of the others, their keeper. Known before the
  // arguments are understood.
  const bool by_keeper = std::ranges::any_of(
      arguments, [](const std::string& one) { return one == "--server" || one == "--preflight"; });
  const int bad_configuration = by_keeper ? kExitBadConfiguration : kStatusUsage;
  // CLI11 takes its arguments last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string unknown = unknown_argument(app);
    if (unknown.empty()) {
      app.exit(error);
    } else {
      std::fprintf(stderr, "%s: %s\n", program.c_str(), unknown.c_str());
    }
    return bad_configuration;
  }
  texts.environment = orlop_environment();
  const auto options = resolve(texts);
  if (!options) {
    report(options.error(), program);
    return bad_configuration;
  }
  if (preflight) return preflight_role(*options);
  log_set_level(options->log_level);
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  // The server is started from /proc/self/exe, so its name would be "exe" in every process list.
  (void)::prctl(PR_SET_NAME, server ? "orlop-server" : "orlop-keeper");
  if (!server) return keeper_role(*options, invocation, arguments);
  log_set_process("server");
  return run_server(*options, keeper_fd);
}

}  // namespace orlop::node
