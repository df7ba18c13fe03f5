// SPDX-License-Identifier: Apache-2.0
// A real orlopd in a folder of its own, for process tests. Everything it started is killed when the
// object ends (also when the test process dies: parent death signal).
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "node/status_file.h"
#include "orlop/error.h"
#include "platform/process.h"

namespace orlop::process_test {

// Polls until it holds; false after `seconds`. Only for waiting on other processes.
bool eventually(const std::function<bool()>& holds, int seconds = 20);

// One HTTP GET; the body, or an error naming the status line.
Result<std::string> http_get(const std::string& address, const std::string& path);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// How a daemon is started, apart from its options.
struct DaemonStart {
  std::string program = ORLOPD_PATH;
  std::vector<std::string> environment{};  // "NAME=value", added to ours
  std::vector<KeptDescriptor> keep{};      // apart from 0, 1, 2
  bool service = false;                    // LISTEN_PID is to be its pid
  // Shell commands that the process carries out before it becomes the daemon: "ulimit -n 40".
  std::string before{};
};

class Daemon {
 public:
  // Starts at once; wait_serving() before use. Standard options: small memory, own socket, any
  // port.
  explicit Daemon(const std::string& folder, std::vector<std::string> extra = {},
                  DaemonStart start = {});
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Until a server of at least `restarts` restarts serves. False when it does not within 20 s.
  bool wait_serving(std::uint32_t restarts = 0);
  node::StatusFile status() const;  // CHECKs that there is one
  std::string socket() const { return folder_ + "/node.sock"; }
  std::string log() const;
  pid_t keeper_pid() const { return keeper_.pid; }

  void kill_server();  // SIGKILL; does not wait
  void kill_keeper();  // SIGKILL
  void terminate();    // SIGTERM to the keeper
  void hang_up();      // SIGHUP to the keeper: upgrade
  ExitStatus wait_exit();

  // Of /metrics, by name and labels as printed: metric("orlop_slots{state=\"free\"}").
  std::map<std::string, double> metrics() const;
  double metric(const std::string& name) const;

 private:
  std::string folder_;
  Child keeper_;
  bool reaped_ = false;
};

}  // namespace orlop::process_test
