// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "platform/clock.h"

namespace orlop::process_test {

bool eventually(const std::function<bool()>& holds, int seconds) {
  const MonoNs deadline = monotonic_ns() + static_cast<MonoNs>(seconds) * kNsPerSecond;
  for (;;) {
    if (holds()) return true;
    if (monotonic_ns() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<std::string> http_get(const std::string& address, const std::string& path) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return fail(ErrorCode::kInvalidArgument, address);
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &name.sin_addr);
  const timeval limit{10, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) {
    return fail(ErrorCode::kNoNode, "connect to " + address);
  }
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n";
  if (::write(socket.get(), request.data(), request.size()) < 0) {
    return fail(ErrorCode::kSystem, "write");
  }
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = ::read(socket.get(), buffer, sizeof buffer)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  const std::size_t body = answer.find("\r\n\r\n");
  const std::string status = answer.substr(0, answer.find("\r\n"));
  if (body == std::string::npos || status.find(" 200 ") == std::string::npos) {
    return fail(ErrorCode::kSystem, status);
  }
  return answer.substr(body + 4);
}

TemporaryFolder::TemporaryFolder() {
  char name[] = "/tmp/orlop-test-XXXXXX";
  CHECK(::mkdtemp(name) != nullptr, "temporary folder");
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Daemon::Daemon(const std::string& folder, std::vector<std::string> extra, DaemonStart start)
    : folder_(folder) {
  const FileDescriptor log(
      ::open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  CHECK(static_cast<bool>(log), "log file");
  SpawnRequest request;
  request.path = start.program;
  request.arguments = {start.program, "--capacity", "64MiB", "--max-value-len", "64KiB", "--socket",
                       socket(),      "--touch",    "off"};
  request.arguments.insert(request.arguments.end(), extra.begin(), extra.end());
  if (start.service || !start.before.empty()) {
    // The shell becomes the daemon: a service's pid is known only in itself.
    request.path = "/bin/sh";
    std::string script = start.before.empty() ? "" : "{ " + start.before + "; } || exit 97; ";
    script += start.service ? "LISTEN_PID=$$ exec \"$0\" \"$@\"" : "exec \"$0\" \"$@\"";
    const std::vector<std::string> shell = {"sh", "-c", script};
    request.arguments.insert(request.arguments.begin(), shell.begin(), shell.end());
  }
  if (start.service) start.environment.emplace_back("LISTEN_PID=0");  // exported
  request.environment.emplace();
  for (char** variable = ::environ; *variable != nullptr; ++variable)
    request.environment->emplace_back(*variable);
  request.environment->insert(request.environment->end(), start.environment.begin(),
                              start.environment.end());
  request.keep = start.keep;
  request.keep.push_back({log.get(), 2});
  request.parent_death_signal = SIGKILL;
  auto child = spawn(request);
  CHECK(child.has_value(), "orlopd starts");
  keeper_ = std::move(*child);
}

Daemon::~Daemon() {
  if (reaped_) return;
  (void)keeper_.pidfd.send_signal(SIGKILL);
  wait_exit();
}

bool Daemon::wait_serving(std::uint32_t restarts) {
  return eventually([&] {
    const auto status = node::read_status_file(socket());
    return status && status->keeper_pid == static_cast<std::uint32_t>(keeper_.pid) &&
           status->restarts >= restarts;
  });
}

node::StatusFile Daemon::status() const {
  auto status = node::read_status_file(socket());
  CHECK(status.has_value(), "status file of a serving node");
  return *status;
}

std::string Daemon::log() const {
  std::ifstream in(folder_ + "/log");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void Daemon::kill_server() {
  ::kill(static_cast<pid_t>(status().server_pid), SIGKILL);
}
void Daemon::kill_keeper() {
  (void)keeper_.pidfd.send_signal(SIGKILL);
}
void Daemon::terminate() {
  (void)keeper_.pidfd.send_signal(SIGTERM);
}

void Daemon::hang_up() {
  (void)keeper_.pidfd.send_signal(SIGHUP);
}

ExitStatus Daemon::wait_exit() {
  const auto ended = reap_child(keeper_.pidfd, monotonic_ns() + 30 * kNsPerSecond);
  CHECK(ended.has_value() && ended->has_value(), "the keeper ends");
  reaped_ = true;
  return **ended;
}

std::map<std::string, double> Daemon::metrics() const {
  std::map<std::string, double> out;
  const auto text = http_get(status().admin, "/metrics");
  if (!text) return out;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string::npos) continue;
    out[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return out;
}

double Daemon::metric(const std::string& name) const {
  const auto all = metrics();
  const auto found = all.find(name);
  return found == all.end() ? -1 : found->second;
}

}  // namespace orlop::process_test
