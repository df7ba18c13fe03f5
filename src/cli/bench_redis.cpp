// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_redis.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/bench_redis_output.h"
#include "cli/interrupt.h"
#include "platform/clock.h"
#include "platform/small_file.h"
#include "platform/system_error.h"

namespace orlop::cli {
namespace {

constexpr const char* kServerPath = "/usr/bin/redis-server";
constexpr const char* kBenchmarkPath = "/usr/bin/redis-benchmark";
constexpr MonoNs kStartLimit = 10 * kNsPerSecond;
constexpr MonoNs kBenchmarkLimit = 60 * kNsPerSecond;
constexpr MonoNs kStopLimit = 3 * kNsPerSecond;
constexpr MonoNs kPollNs = 10 * kNsPerMs;

Result<Child> spawn_logged(const char* path, std::vector<std::string> arguments,
                           const std::string& log_path) {
  const FileDescriptor log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!log) return system_failure("open(" + log_path + ")", errno);
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_failure("open(/dev/null)", errno);
  SpawnRequest request;
  request.path = path;
  request.arguments = std::move(arguments);
  request.keep = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  request.parent_death_signal = SIGKILL;
  return spawn(request);
}

bool accepts(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!socket || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void end(Child& child) {
  if (child.pid == 0 || !child.pidfd) return;
  (void)child.pidfd.send_signal(SIGTERM);
  const auto ended = reap_child(child.pidfd, monotonic_ns() + kStopLimit);
  if (ended && !*ended) {
    (void)child.pidfd.send_signal(SIGKILL);
    (void)reap_child(child.pidfd, kNever);
  }
  child = {};
}

}  // namespace

RedisServer::RedisServer(RedisServer&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), child_(std::exchange(other.child_, {})) {}

RedisServer::~RedisServer() {
  end(child_);
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<RedisServer> RedisServer::start(std::uint64_t max_memory) {
  for (const auto& [path, package] :
       {std::pair{kServerPath, "redis-server"}, std::pair{kBenchmarkPath, "redis-tools"}}) {
    if (::access(path, X_OK) == 0) continue;
    return fail(ErrorCode::kRefused, std::string(path) +
                                         " is not there: install Debian's package " + package +
                                         " (./dev setup bench)");
  }
  RedisServer server;
  std::error_code error;
  std::string pattern = std::filesystem::temp_directory_path(error) / "orlop-redis-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    return system_failure("mkdtemp(" + pattern + ")", errno);
  server.folder_ = pattern;
  if (auto spawned = server.spawn_server(max_memory); !spawned) {
    return std::unexpected(spawned.error());
  }
  if (auto served = server.wait_until_served(); !served) return std::unexpected(served.error());
  return server;
}

Result<void> RedisServer::spawn_server(std::uint64_t max_memory) {
  auto child =
      spawn_logged(kServerPath,
                   {"redis-server", "--port", "0", "--unixsocket", folder_ + "/redis.sock", "--dir",
                    folder_, "--save", "", "--appendonly", "no", "--daemonize", "no", "--maxmemory",
                    std::to_string(max_memory), "--maxmemory-policy", "allkeys-lru"},
                   folder_ + "/server.log");
  if (!child) return std::unexpected(child.error());
  child_ = std::move(*child);
  return {};
}

Result<void> RedisServer::wait_until_served() const {
  const MonoNs deadline = monotonic_ns() + kStartLimit;
  while (!accepts(folder_ + "/redis.sock")) {
    if (interrupted()) return fail(ErrorCode::kClosed, "interrupted");
    if (child_.pidfd.has_exited() || monotonic_ns() >= deadline) {
      return fail(ErrorCode::kDeadline,
                  "redis-server does not serve: " +
                      read_text_file(folder_ + "/server.log").value_or("(no log)"));
    }
    if (auto waited = child_.pidfd.wait_exit(monotonic_ns() + kPollNs); !waited) {
      return std::unexpected(waited.error());
    }
  }
  return {};
}

Result<double> RedisServer::benchmark(const std::string& test, const RedisLoad& load) const {
  const std::string output = folder_ + "/benchmark.csv";
  auto child =
      spawn_logged(kBenchmarkPath,
                   {"redis-benchmark", "-s", folder_ + "/redis.sock", "-t",
                    test == "SET" ? "set" : "get", "-P", std::to_string(load.pipeline), "-c",
                    std::to_string(load.clients), "-d", std::to_string(load.value_bytes), "-r",
                    std::to_string(load.key_space), "-n", std::to_string(load.requests), "--csv"},
                   output);
  if (!child) return std::unexpected(child.error());
  const auto ended = reap_child(child->pidfd, monotonic_ns() + kBenchmarkLimit);
  if (!ended || !*ended) {
    end(*child);
    return ended ? fail(ErrorCode::kDeadline, "redis-benchmark did not end")
                 : std::unexpected(ended.error());
  }
  const auto text = read_text_file(output);
  if (!text) return std::unexpected(text.error());
  return redis_requests_per_second(*text, test);
}

}  // namespace orlop::cli
