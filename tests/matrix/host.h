// SPDX-License-Identifier: Apache-2.0
// The host of one cell of the crash matrix: node, service manager, workers; and its processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon.h"
#include "platform/pause_point.h"
#include "stand_in_manager.h"
#include "worker.h"

namespace orlop::matrix {

class Host {
 public:
  // What goes wrong on the way is appended to complaints.
  explicit Host(std::vector<std::string>& complaints);

  PauseControl& pauses() { return pauses_; }
  process_test::Daemon& daemon() { return *daemon_; }
  const std::string& socket() const { return socket_; }
  WorkerProcess* witness() { return witness_ ? &*witness_ : nullptr; }
  WorkerProcess* victim() { return victim_ ? &*victim_ : nullptr; }

  void start_node();  // also the next one, with what the manager keeps
  bool start_witness();
  bool start_victim();
  bool start_visitor();
  void kill_victim();
  void kill_visitor();
  // Every child of the keeper: the server, and a new program that is being checked.
  void kill_servers();
  void kill_keeper();  // and takes its end off the kernel
  std::vector<pid_t> children_of_keeper() const;

  bool await_serving();
  // Polls; a complaint "WHAT" after kPatience.
  bool require(const std::string& what, const std::function<bool()>& holds);
  void complain(std::string text) { complaints_.push_back(std::move(text)); }
  // A value of /metrics; -1 without a node.
  double metric(const std::string& name) const;
  std::string log() const;
  // Every page that the witness stored is there, and no call of it was late.
  bool check_contents();
  // Both clients flush and end as ordered; then nothing may be left in the node.
  void leave_clients();
  void stop_node();  // in order

 private:
  bool start_worker(std::optional<WorkerProcess>& into, const std::string& role, bool paused);
  void require_right_bytes(const std::optional<WorkerProcess>& worker, const std::string& who);
  void leave(std::optional<WorkerProcess>& worker, const std::string& who);

  std::vector<std::string>& complaints_;
  process_test::TemporaryFolder folder_;
  std::string socket_;
  PauseControl pauses_;
  process_test::StandInManager manager_;
  std::unique_ptr<process_test::Daemon> daemon_;
  std::optional<WorkerProcess> witness_, victim_, visitor_;
};

// How long something may take that is not measured: other work of the machine included.
inline constexpr int kPatienceSeconds = 40;

}  // namespace orlop::matrix
