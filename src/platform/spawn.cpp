// SPDX-License-Identifier: Apache-2.0
// The spawn half of process.h.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <set>

#include "base/block_signals.h"
#include "platform/process.h"
#include "platform/system_error.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)  // Linux 5.11; include/uapi/linux/close_range.h
#endif

namespace orlop {
namespace {

// What the child reports when it cannot exec; the order is the order in which it does the steps.
enum class Step : int { kDeathSignal, kParentGone, kDescriptor, kExec };
struct Report {
  Step step;
  int error_number;
};

// Everything the child needs, made before the fork: afterwards it may not allocate.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<KeptDescriptor> keep;
  int first_free = 3;  // above every number that the child shall have
  rlim_t max_descriptors = 0;
  pid_t parent = 0;
};

Result<void> check_descriptors(const std::vector<KeptDescriptor>& keep) {
  std::set<int> numbers;
  for (std::size_t i = 0; i < keep.size(); ++i) {
    const KeptDescriptor& kept = keep[i];
    const std::string which = "spawn: keep[" + std::to_string(i) + "]";
    if (::fcntl(kept.fd, F_GETFD) < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  which + ": descriptor " + std::to_string(kept.fd) + " is not open");
    }
    if (kept.number < 0 || kept.number >= kMaxKeptNumber) {
      return fail(ErrorCode::kInvalidArgument, which + ": number " + std::to_string(kept.number) +
                                                   " is not from 0 to " +
                                                   std::to_string(kMaxKeptNumber - 1));
    }
    if (!numbers.insert(kept.number).second) {
      return fail(ErrorCode::kInvalidArgument,
                  which + ": number " + std::to_string(kept.number) + " is given twice");
    }
  }
  return {};
}

std::vector<char*> pointers_of(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  // execve takes char* for historical reasons and changes nothing.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void report_and_exit(int status_pipe, Step step) {
  const Report report{step, errno};
  // A short write to a pipe is atomic; if it fails, the parent sees an end-of-file and exit code.
  [[maybe_unused]] const ssize_t ignored = ::write(status_pipe, &report, sizeof report);
  ::_exit(127);
}

void close_all_on_exec(rlim_t max_descriptors) {
  if (::close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC) == 0) return;
  for (int fd = 3; fd < static_cast<int>(std::min<rlim_t>(max_descriptors, 1 << 20)); ++fd) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

// In the child, between fork and exec: async-signal-safe calls only. Sources first move above all
// wanted numbers, so that no step overwrites one that is still needed.
[[noreturn]] void become(const SpawnRequest& request, Prepared& prepared, int status_pipe) {
  status_pipe = ::fcntl(status_pipe, F_DUPFD_CLOEXEC, prepared.first_free);
  if (status_pipe < 0) ::_exit(127);
  if (request.parent_death_signal != 0) {
    if (::prctl(PR_SET_PDEATHSIG, request.parent_death_signal) != 0) {
      report_and_exit(status_pipe, Step::kDeathSignal);
    }
    if (::getppid() != prepared.parent) report_and_exit(status_pipe, Step::kParentGone);
  }
  for (KeptDescriptor& kept : prepared.keep) {
    kept.fd = ::fcntl(kept.fd, F_DUPFD_CLOEXEC, prepared.first_free);
    if (kept.fd < 0) report_and_exit(status_pipe, Step::kDescriptor);
  }
  close_all_on_exec(prepared.max_descriptors);
  for (const KeptDescriptor& kept : prepared.keep) {
    // dup2 clears close-on-exec.
    if (::dup2(kept.fd, kept.number) < 0) report_and_exit(status_pipe, Step::kDescriptor);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(request.path.c_str(), prepared.arguments.data(),
           request.environment ? prepared.environment.data() : ::environ);
  report_and_exit(status_pipe, Step::kExec);
}

std::string step_text(Step step, const SpawnRequest& request) {
  switch (step) {
    case Step::kDeathSignal:
      return "spawn: prctl(PR_SET_PDEATHSIG)";
    case Step::kParentGone:
      return "spawn: the parent died";
    case Step::kDescriptor:
      return "spawn: dup2 of a kept descriptor";
    case Step::kExec:
      break;
  }
  return "execve(" + request.path + ")";
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Waits for exec (end-of-file, because the pipe is close-on-exec) or for a report.
Result<void> await_exec(int status_pipe, pid_t pid, const SpawnRequest& request) {
  Report report{};
  ssize_t got = 0;
  do {
    got = ::read(status_pipe, &report, sizeof report);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return {};
  const int read_error = errno;
  kill_and_reap(pid);
  if (got != sizeof report) return system_failure("spawn: read(status pipe)", read_error);
  return system_failure(step_text(report.step, request), report.error_number);
}

pid_t fork_without_signals(const SpawnRequest& request, Prepared& prepared, int status_pipe) {
  // No handler of ours may run in the child before exec.
  const BlockSignals blocked;
  const pid_t pid = ::fork();
  if (pid == 0) become(request, prepared, status_pipe);
  return pid;
}

}  // namespace

Result<Child> spawn(const SpawnRequest& request) {
  if (auto valid = check_descriptors(request.keep); !valid) return std::unexpected(valid.error());
  Prepared prepared;
  prepared.arguments = pointers_of(request.arguments);
  if (request.environment) prepared.environment = pointers_of(*request.environment);
  prepared.keep = request.keep;
  for (const KeptDescriptor& kept : request.keep) {
    prepared.first_free = std::max(prepared.first_free, kept.number + 1);
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  prepared.max_descriptors = limit.rlim_cur;
  prepared.parent = ::getpid();

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("pipe2", errno);
  FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  Child child;
  child.pid = fork_without_signals(request, prepared, write_end.get());
  if (child.pid < 0) return system_failure("fork", errno);
  write_end.reset();
  if (auto started = await_exec(read_end.get(), child.pid, request); !started) {
    return std::unexpected(started.error());
  }
  // Not reaped by anybody yet, so the pid cannot mean another process.
  auto pidfd = PidFd::of_process(child.pid);
  if (!pidfd) {
    kill_and_reap(child.pid);
    return std::unexpected(pidfd.error());
  }
  child.pidfd = std::move(*pidfd);
  return child;
}

}  // namespace orlop
