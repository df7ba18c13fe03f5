// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include <signal.h>

#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace orlop::matrix {

using process_test::eventually;

namespace {

PauseControl make_pauses() {
  auto made = PauseControl::create();
  CHECK(made.has_value(), "pause page");
  return std::move(*made);
}

}  // namespace

Host::Host(std::vector<std::string>& complaints)
    : complaints_(complaints),
      socket_(folder_.path() + "/node.sock"),
      pauses_(make_pauses()),
      manager_(folder_.path()) {}

void Host::start_node() {
  daemon_ = manager_.start(folder_.path(), {},
                           {std::string(kPauseVariable) + "=" + std::to_string(kPauseFd)},
                           {{pauses_.fd(), kPauseFd}});
}

bool Host::start_worker(std::optional<WorkerProcess>& into, const std::string& role, bool paused) {
  auto worker = WorkerProcess::start(role, socket_, paused ? pauses_.fd() : -1);
  if (!worker) {
    complain(role + " does not start: " + worker.error().message);
    return false;
  }
  into.emplace(std::move(*worker));
  return true;
}

bool Host::start_witness() {
  return start_worker(witness_, "witness", false) &&
         require("the witness stores its pages", [&] { return witness_->report().kept != 0; });
}

bool Host::start_victim() {
  return start_worker(victim_, "victim", true);
}

bool Host::start_visitor() {
  return start_worker(visitor_, "visitor", false) &&
         require("the visitor has a put open", [&] { return visitor_->report().rounds > 0; });
}

void Host::kill_victim() {
  require_right_bytes(victim_, "victim");
  victim_.reset();
}

void Host::kill_visitor() {
  visitor_.reset();
}

std::vector<pid_t> Host::children_of_keeper() const {
  const std::string pid = std::to_string(daemon_->keeper_pid());
  std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; in >> child;) children.push_back(child);
  return children;
}

void Host::kill_servers() {
  const std::vector<pid_t> children = children_of_keeper();
  if (children.empty()) return;  // dead already, or not born yet: so it is at this place
  for (const pid_t child : children) ::kill(child, SIGKILL);
}

void Host::kill_keeper() {
  daemon_->kill_keeper();
  (void)daemon_->wait_exit();
}

bool Host::await_serving() {
  return require("a server serves", [&] { return metric("orlop_uptime_seconds") >= 0; });
}

bool Host::require(const std::string& what, const std::function<bool()>& holds) {
  if (eventually(holds, kPatienceSeconds)) return true;
  complain("not within " + std::to_string(kPatienceSeconds) + " s: " + what);
  return false;
}

double Host::metric(const std::string& name) const {
  const auto status = node::read_status_file(socket_);
  if (!status || status->keeper_pid != static_cast<std::uint32_t>(daemon_->keeper_pid())) return -1;
  return daemon_->metric(name);
}

std::string Host::log() const {
  return daemon_ ? daemon_->log() : std::string();
}

bool Host::check_contents() {
  WorkerReport& report = witness_->report();
  const std::uint64_t before = report.verified;
  report.order = Order::kVerify;
  if (!require("the witness reads all of its pages", [&] { return report.verified > before; }))
    return false;
  if (report.missing != 0) complain(std::to_string(report.missing) + " stored pages are gone");
  if (report.calls_over != 0) {
    complain(std::to_string(report.calls_over) + " calls of the witness took up to " +
             format_duration_ns(report.longest_call_ns));
  }
  return true;
}

void Host::leave_clients() {
  leave(victim_, "victim");
  leave(witness_, "witness");
  require("nothing is left in the node", [&] {
    const auto metrics = daemon_->metrics();
    double used = 0;
    for (const auto& [name, value] : metrics) {
      const bool of_use = name.starts_with("orlop_slots{") && !name.ends_with("\"free\"}");
      if (of_use || name == "orlop_clients_known" || name == "orlop_pinned_groups" ||
          name == "orlop_prepared_bytes" || name == "orlop_open_puts" ||
          name == "orlop_doomed_slots")
        used += value;
    }
    return !metrics.empty() && used == 0;
  });
}

void Host::stop_node() {
  daemon_->terminate();
  const ExitStatus ended = daemon_->wait_exit();
  if (ended.by_signal || ended.value != 0) complain("the node: " + to_string(ended));
}

void Host::leave(std::optional<WorkerProcess>& worker, const std::string& who) {
  require_right_bytes(worker, who);
  const auto ended = worker->stop();
  if (!ended) {
    complain("the " + who + " does not end: " + ended.error().message);
  } else if (ended->by_signal || ended->value != 0) {
    complain("the " + who + ": " + to_string(*ended));
  }
}

void Host::require_right_bytes(const std::optional<WorkerProcess>& worker, const std::string& who) {
  if (!worker || worker->report().wrong == 0) return;
  complain(std::to_string(worker->report().wrong) + " wrong values read by the " + who);
}

}  // namespace orlop::matrix
