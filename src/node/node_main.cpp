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
#include "node/kept_configuration.h"
#include "node/option_sources.h"
#include "node/option_table.h"
#include "node/server.h"
#include "node/unknown_argument.h"
#include "node/version.h"
#include "platform/pause_point.h"

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

protocol::Preflight preflight_of(const NodeOptions& options) {
  protocol::Preflight preflight;
  preflight.version = kVersion;
  for (const OptionRow& one : option_rows()) {
    if (one.of_keeper) preflight.keeper_settings.emplace_back(one.key, one.get(options));
  }
  return preflight;
}

int preflight_role(const NodeOptions& options) {
  const std::string text = protocol::format_preflight(preflight_of(options));
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? kExitFailed : kExitOk;
}

// How servers and preflights of this node are started.
struct Invocation {
  const std::vector<std::string>& program;
  const std::vector<std::string>& arguments;
  std::string configuration_file;
  FileDescriptor configuration;
};

int keeper_role(const NodeOptions& options, Invocation invocation) {
  log_set_process("keeper");
  log_configuration(options);
  const auto command = [&](std::vector<std::string> role) {
    role.insert(role.begin(), invocation.program.begin(), invocation.program.end());
    if (invocation.configuration) {
      role.insert(role.end(), {"--config-fd", std::to_string(kConfigurationFdNumber)});
    }
    role.insert(role.end(), invocation.arguments.begin(), invocation.arguments.end());
    return role;
  };
  KeeperCommands commands{command({"--server", "--keeper-fd", std::to_string(kKeeperFdNumber)}),
                          command({"--preflight"}),
                          preflight_of(options),
                          invocation.configuration_file,
                          {}};
  commands.configuration = std::move(invocation.configuration);
  const auto ran = run_keeper(options, std::move(commands));
  if (!ran) {
    report(ran.error(), joined(invocation.program));
    return exit_status_of(ran.error().code);
  }
  LOG_INFO("stopped");
  return kExitOk;
}

// What the options' file is read from: of a keeper, a copy made now, so that what it accepts is
// what its servers get; of the others, the copy that they were given. When it cannot be made,
// reading the file itself says why.
Result<FileDescriptor> taken_configuration(OptionTexts& texts, int given) {
  if (given >= 0) {
    texts.config_copy = given;
    return FileDescriptor(given);
  }
  const std::string file = configuration_file(texts);
  if (file.empty()) return FileDescriptor();
  auto copy = copy_of_configuration(file);
  if (copy) texts.config_copy = copy->get();
  return copy;
}

}  // namespace

int node_main(const std::vector<std::string>& invocation, std::vector<std::string> arguments) {
  take_pause_page_from_environment();
  const std::string program = joined(invocation);
  CLI::App app("Orlop node: owns this host's cache memory and serves the engines' workers",
               program);
  OptionTexts texts;
  bool server = false, preflight = false;
  int keeper_fd = -1, config_fd = -1;
  add_options(app, texts);
  app.set_version_flag("--version", std::string("orlop ") + kVersion);
  app.add_flag("--server", server)->group("");  // hidden: the keeper's word to its child
  app.add_option("--keeper-fd", keeper_fd)->group("");
  app.add_option("--config-fd", config_fd)
      ->group("");                                    // hidden: the file as the keeper accepted it
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
  Result<FileDescriptor> configuration = taken_configuration(texts, config_fd);
  const auto options = resolve(texts);
  if (!options) {
    report(options.error(), program);
    return bad_configuration;
  }
  if (!configuration) {
    report(configuration.error(), program);
    return bad_configuration;
  }
  if (preflight) return preflight_role(*options);
  log_set_level(options->log_level);
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  // The server is started from /proc/self/exe, so its name would be "exe" in every process list.
  (void)::prctl(PR_SET_NAME, server ? "orlop-server" : "orlop-keeper");
  if (!server) {
    return keeper_role(
        *options, {invocation, arguments, configuration_file(texts), std::move(*configuration)});
  }
  configuration->reset();
  log_set_process("server");
  return run_server(*options, keeper_fd);
}

}  // namespace orlop::node
