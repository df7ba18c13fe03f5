// SPDX-License-Identifier: Apache-2.0
// The host's side of a worker process (worker_main.cpp).
#pragma once

#include <sys/types.h>

#include <string>

#include "platform/process.h"
#include "worker_report.h"

namespace orlop::matrix {

inline constexpr int kReportFd = 101;
inline constexpr int kPauseFd = 100;
inline constexpr std::uint32_t kWorkerValueLen = 16 * 1024;

class WorkerProcess {
 public:
  // pause_fd: -1: a process that is never paused. Ends with us at the latest.
  static Result<WorkerProcess> start(const std::string& role, const std::string& socket,
                                     int pause_fd);
  WorkerProcess(WorkerProcess&&) noexcept = default;
  WorkerProcess& operator=(WorkerProcess&&) noexcept;
  ~WorkerProcess();

  WorkerReport& report() const { return *report_; }
  pid_t pid() const { return child_.pid; }
  bool over() const { return child_.pidfd.has_exited(); }
  void signal(int number) const { (void)child_.pidfd.send_signal(number); }
  void kill();  // and waits for its end
  // Orders it to stop. Its exit status, or an error when it does not end in time.
  Result<ExitStatus> stop();

 private:
  WorkerProcess(SharedReport report, Child child)
      : report_(std::move(report)), child_(std::move(child)) {}
  SharedReport report_;
  Child child_;
};

}  // namespace orlop::matrix
