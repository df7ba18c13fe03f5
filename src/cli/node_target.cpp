// SPDX-License-Identifier: Apache-2.0
#include "cli/node_target.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/units.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "platform/runtime_dir.h"

namespace orlop::cli {
namespace {

constexpr Milliseconds kAttachLimit{5'000};
// Removal and flush of a large node take longer than an engine may wait.
constexpr Milliseconds kCallBudget{10'000};
// Nobody waits longer for a command, and a deadline must not wrap.
constexpr MonoNs kMostWait = 24 * 3'600 * kNsPerSecond;

}  // namespace

void add_socket_option(CLI::App& command, std::string& socket) {
  command.add_option("--socket", socket,
                     "of the node; default: $ORLOP_SOCKET, else the node's default place");
}

std::string socket_or_default(const std::string& given) {
  return given.empty() ? default_socket_place(RuntimeEnvironment::current()).socket_path : given;
}

Result<MonoNs> parse_wait(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const auto wait = parse_duration(plain ? text + "s" : text);
  if (!wait) return fail(wait.error().code, "--wait: " + wait.error().message);
  if (*wait > kMostWait) return fail(ErrorCode::kInvalidArgument, "--wait: at most 24 hours");
  return *wait;
}

ExitCode report_node_error(const char* name, const Error& error) {
  const ExitCode code = report_error(name, error);
  if (code == ExitCode::kNoNode) {
    std::fprintf(stderr,
                 "start one with `orlop serve --capacity 64GiB`, or name its socket with --socket "
                 "or ORLOP_SOCKET\n");
  }
  return code;
}

Result<Client> attach(const std::string& name, const std::string& socket) {
  // A client would go on trying; a command wants to know.
  if (const auto node = find_node(socket); !node) return std::unexpected(node.error());
  Client client({.socket = socket, .name = name, .call_budget = kCallBudget});
  if (!client.wait_ready(kAttachLimit)) return std::unexpected(client.last_attach_error());
  return client;
}

Result<nlohmann::ordered_json> ask_node(const std::string& socket, const std::string& path) {
  const auto file = find_node(socket);
  if (!file) return std::unexpected(file.error());
  const auto text = fetch(file->admin, path);
  if (!text && text.error().message.find("HTTP status 404") != std::string::npos) {
    return fail(ErrorCode::kRefused, "the node at " + socket +
                                         " is older than this program and has no " + path +
                                         "; restart it with this version");
  }
  if (!text) return std::unexpected(text.error());
  auto json = parse_answer(*text);
  if (!json) {
    return fail(ErrorCode::kCorrupt, path + " at " + file->admin + " is no JSON object");
  }
  return *std::move(json);
}

}  // namespace orlop::cli
