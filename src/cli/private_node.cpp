// SPDX-License-Identifier: Apache-2.0
#include "cli/private_node.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/admin_client.h"
#include "cli/interrupt.h"
#include "cli/status_fields.h"
#include "node/option_sources.h"
#include "platform/clock.h"
#include "platform/small_file.h"
#include "platform/system_error.h"

namespace orlop::cli {
namespace {

constexpr MonoNs kPollNs = 10 * kNsPerMs;
constexpr std::size_t kShownLogBytes = 2000;
// Room for "/node.sock.json.new" in a socket path of 107 bytes.
constexpr const char* kFolderPattern = "orlop-XXXXXX";

// Ours, but for what would configure a node: this one is told everything by its flags.
std::vector<std::string> environment_of_node() {
  std::vector<std::string> kept;
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
    const std::string entry = *one;
    const std::string name = entry.substr(0, entry.find('='));
    if (!name.starts_with("ORLOP_") || name == "ORLOP_LOG" || node::is_foreign_variable(name)) {
      kept.push_back(entry);
    }
  }
  return kept;
}

}  // namespace

PrivateNode::PrivateNode(PrivateNode&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      socket_(std::exchange(other.socket_, {})),
      keep_folder_(other.keep_folder_),
      keeper_(std::exchange(other.keeper_, {})) {}

Result<PrivateNode> PrivateNode::start(std::vector<std::string> arguments, bool keep_folder,
                                       MonoNs deadline) {
  PrivateNode node;
  node.keep_folder_ = keep_folder;
  if (auto made = node.make_folder(); !made) return std::unexpected(made.error());
  if (auto spawned = node.spawn_keeper(std::move(arguments)); !spawned) {
    return std::unexpected(spawned.error());
  }
  if (auto served = node.wait_until_served(deadline); !served) {
    return std::unexpected(served.error());
  }
  return node;
}

Result<void> PrivateNode::make_folder() {
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  std::string pattern = (error ? std::filesystem::path("/tmp") : parent) / kFolderPattern;
  if (::mkdtemp(pattern.data()) == nullptr)
    return system_failure("mkdtemp(" + pattern + ")", errno);
  folder_ = pattern;
  socket_ = folder_ + "/node.sock";
  return {};
}

Result<void> PrivateNode::spawn_keeper(std::vector<std::string> arguments) {
  const std::string log_path = folder_ + "/node.log";
  const FileDescriptor log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return system_failure("open(" + log_path + ")", errno);
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_failure("open(/dev/null)", errno);
  SpawnRequest request;
  request.path = "/proc/self/exe";
  request.arguments = {"orlop", "serve", "--socket", socket_, "--admin", "127.0.0.1:0"};
  request.arguments.insert(request.arguments.end(), arguments.begin(), arguments.end());
  request.environment = environment_of_node();
  request.keep = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  request.parent_death_signal = SIGTERM;
  auto child = spawn(request);
  if (!child) return std::unexpected(child.error());
  keeper_ = std::move(*child);
  return {};
}

Result<void> PrivateNode::wait_until_served(MonoNs deadline) {
  for (;;) {
    if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
    if (keeper_.pidfd.has_exited()) {
      return fail(ErrorCode::kRefused, "the node did not start:\n" + last_log_lines());
    }
    const auto now_status = status();
    if (now_status && status_fields::text(*now_status, "state") == "ready") return {};
    const MonoNs now = monotonic_ns();
    if (now >= deadline) {
      return fail(ErrorCode::kDeadline, "the node did not serve in time:\n" + last_log_lines());
    }
    // Its end is the only thing that can be waited for; being ready has to be asked for.
    if (auto waited = keeper_.pidfd.wait_exit(std::min(now + kPollNs, deadline)); !waited) {
      return std::unexpected(waited.error());
    }
  }
}

Result<nlohmann::ordered_json> PrivateNode::status() const {
  return fetch_status(socket_);
}

Result<MonoNs> PrivateNode::kill_server() const {
  const auto file = node::read_status_file(socket_);
  if (!file) return std::unexpected(file.error());
  if (file->server_pid <= 1) return fail(ErrorCode::kCorrupt, "the node has no server process");
  const MonoNs before = monotonic_ns();
  if (::kill(static_cast<pid_t>(file->server_pid), SIGKILL) != 0) {
    return system_failure("kill(server " + std::to_string(file->server_pid) + ")", errno);
  }
  return before;
}

Result<void> PrivateNode::stop() {
  if (folder_.empty()) return {};
  Result<void> outcome;
  if (keeper_.pid > 0) {
    (void)keeper_.pidfd.send_signal(SIGTERM);
    auto ended = reap_child(keeper_.pidfd, monotonic_ns() + kStopLimit);
    if (ended && !*ended) {
      // The server follows its keeper by its parent death signal.
      (void)keeper_.pidfd.send_signal(SIGKILL);
      (void)reap_child(keeper_.pidfd, kNever);
      outcome = fail(ErrorCode::kSystem, "the node did not stop in time and was killed");
    } else if (!ended) {
      outcome = std::unexpected(ended.error());
    } else if ((*ended)->by_signal || (*ended)->value != 0) {
      outcome = fail(ErrorCode::kSystem,
                     "the node ended with " + to_string(**ended) + ":\n" + last_log_lines());
    }
    keeper_ = {};
  }
  if (!keep_folder_) {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  folder_.clear();
  return outcome;
}

std::string PrivateNode::last_log_lines() const {
  auto text = read_text_file(folder_ + "/node.log");
  if (!text) return "(no log)";
  if (text->size() > kShownLogBytes) text->erase(0, text->size() - kShownLogBytes);
  return *text;
}

}  // namespace orlop::cli
