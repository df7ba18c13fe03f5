// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <signal.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "platform/clock.h"
#include "platform/pause_point.h"

namespace orlop::matrix {

namespace {
constexpr MonoNs kEndLimit = 40 * kNsPerSecond;
}

Result<WorkerProcess> WorkerProcess::start(const std::string& role, const std::string& socket,
                                           int pause_fd) {
  auto report = SharedReport::create();
  if (!report) return std::unexpected(report.error());
  SpawnRequest request;
  request.path = ORLOP_MATRIX_WORKER_PATH;
  request.arguments = {request.path, role, socket};
  request.environment.emplace();
  for (char** variable = ::environ; *variable != nullptr; ++variable)
    request.environment->emplace_back(*variable);
  request.keep = {{report->fd(), kReportFd}};
  if (pause_fd >= 0) {
    request.environment->push_back(std::string(kPauseVariable) + "=" + std::to_string(kPauseFd));
    request.keep.push_back({pause_fd, kPauseFd});
  }
  request.parent_death_signal = SIGKILL;
  auto child = spawn(request);
  if (!child) return std::unexpected(child.error());
  return WorkerProcess(std::move(*report), std::move(*child));
}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  report_ = std::move(other.report_);
  child_ = std::move(other.child_);
  return *this;
}

WorkerProcess::~WorkerProcess() {
  kill();
}

void WorkerProcess::kill() {
  if (!child_.pidfd) return;
  (void)child_.pidfd.send_signal(SIGKILL);
  (void)reap_child(child_.pidfd, monotonic_ns() + kEndLimit);
  child_ = {};
}

Result<ExitStatus> WorkerProcess::stop() {
  report_->order = Order::kStop;
  const auto ended = reap_child(child_.pidfd, monotonic_ns() + kEndLimit);
  if (!ended) return std::unexpected(ended.error());
  if (!*ended) return fail(ErrorCode::kDeadline, "it did not end");
  child_ = {};
  return **ended;
}

}  // namespace orlop::matrix
