// SPDX-License-Identifier: Apache-2.0
#include "platform/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "platform/poll_wait.h"
#include "platform/system_error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; include/uapi/asm-generic/socket.h
#endif

namespace orlop {
namespace {

std::unexpected<Error> pidfd_failure(const std::string& call, int error_number) {
  if (error_number == ESRCH) {
    return system_failure(call, error_number, "the process is dead", ErrorCode::kClosed);
  }
  const bool system = error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM ||
                      error_number == EBADF || error_number == ENOTSOCK;
  return system ? system_failure(call, error_number)
                : system_failure(call, error_number,
                                 "its death could not be proved; use Linux 5.3 or newer, allow "
                                 "pidfd_open in the container's seccomp profile, or share the pid "
                                 "namespace",
                                 ErrorCode::kRefused);
}

}  // namespace

Result<PeerCredentials> peer_credentials(int socket) {
  ucred raw{};
  socklen_t size = sizeof raw;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &raw, &size) != 0) {
    return system_failure("getsockopt(SO_PEERCRED)", errno);
  }
  return PeerCredentials{raw.pid, raw.uid, raw.gid};
}

Result<PidFd> PidFd::adopt(FileDescriptor descriptor) {
  // Signal 0 is only a question; EBADF is the answer for everything that is no pidfd.
  if (::syscall(SYS_pidfd_send_signal, descriptor.get(), 0, nullptr, 0u) != 0 && errno == EBADF) {
    return fail(ErrorCode::kCorrupt, "the descriptor received is no pidfd; close the connection");
  }
  PidFd adopted;
  adopted.descriptor_ = std::move(descriptor);
  return adopted;
}

Result<PidFd> PidFd::of_peer(int socket) {
  int raw = -1;
  socklen_t size = sizeof raw;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &raw, &size) == 0) {
    PidFd made;
    made.descriptor_ = FileDescriptor(raw);
    if (::fcntl(raw, F_SETFD, FD_CLOEXEC) != 0) return system_failure("fcntl(FD_CLOEXEC)", errno);
    return made;
  }
  // ENOPROTOOPT: kernel before 6.5. EINVAL: some kernels say so for a peer that is dead and waited
  // for, which pidfd_open then says clearly.
  if (errno != ENOPROTOOPT && errno != EINVAL) {
    return pidfd_failure("getsockopt(SO_PEERPIDFD)", errno);
  }
  auto peer = peer_credentials(socket);
  if (!peer) return std::unexpected(peer.error());
  if (peer->pid <= 0) {
    return fail(ErrorCode::kRefused,
                "the peer lives in another pid namespace and this kernel has no SO_PEERPIDFD: its "
                "death could not be proved; use Linux 6.5 or newer, or share the pid namespace");
  }
  // If the peer died meanwhile and its pid was taken by another process, that one's life is watched
  // instead: too long, never too short.
  return of_process(peer->pid);
}

Result<PidFd> PidFd::of_process(pid_t pid) {
  const long raw = ::syscall(SYS_pidfd_open, pid, 0u);
  if (raw < 0) return pidfd_failure("pidfd_open(" + std::to_string(pid) + ")", errno);
  PidFd made;
  made.descriptor_ = FileDescriptor(static_cast<int>(raw));  // close-on-exec by definition
  return made;
}

bool PidFd::has_exited() const {
  auto exited = wait_exit(0);
  CHECK(exited.has_value(), "a pidfd that is not open");
  return *exited;
}

Result<bool> PidFd::wait_exit(MonoNs deadline) const {
  return wait_readable(fd(), deadline);
}

Result<void> PidFd::send_signal(int signal_number) const {
  if (::syscall(SYS_pidfd_send_signal, fd(), signal_number, nullptr, 0u) == 0) return {};
  const ErrorCode code = errno == ESRCH   ? ErrorCode::kClosed
                         : errno == EPERM ? ErrorCode::kRefused
                                          : ErrorCode::kSystem;
  return system_failure("pidfd_send_signal(" + std::to_string(signal_number) + ")", errno, {},
                        code);
}

std::string to_string(const ExitStatus& status) {
  if (!status.by_signal) return "exit code " + std::to_string(status.value);
  const char* name = ::sigabbrev_np(status.value);
  return "signal " + std::to_string(status.value) +
         (name != nullptr ? " (SIG" + std::string(name) + ")" : std::string());
}

namespace {

// None: the child lives.
Result<std::optional<ExitStatus>> take_status(const PidFd& child) {
  siginfo_t info{};
  int rc = 0;
  do {
    rc = ::waitid(P_PIDFD, static_cast<id_t>(child.fd()), &info, WEXITED | WNOHANG);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0 && errno == ECHILD) {
    return fail(ErrorCode::kWrongState,
                "waitid(P_PIDFD): not a child of this process, or its status was taken already");
  }
  if (rc != 0) return system_failure("waitid(P_PIDFD)", errno);
  if (info.si_pid == 0) return std::optional<ExitStatus>{};
  return ExitStatus{info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace

Result<std::optional<ExitStatus>> reap_child(const PidFd& child, MonoNs deadline) {
  // Asked before waiting too: for a process that is not ours there is nothing to wait for.
  for (;;) {
    auto status = take_status(child);
    if (!status || *status) return status;
    auto exited = child.wait_exit(deadline);
    if (!exited) return std::unexpected(exited.error());
    if (!*exited) return std::optional<ExitStatus>{};
  }
}

Result<void> set_parent_death_signal(int signal_number, pid_t expected_parent) {
  if (::prctl(PR_SET_PDEATHSIG, signal_number) != 0) {
    return system_failure("prctl(PR_SET_PDEATHSIG)", errno);
  }
  // A parent that died before the call sends nothing any more.
  if (signal_number != 0 && ::getppid() != expected_parent) {
    return fail(ErrorCode::kClosed, "the parent process " + std::to_string(expected_parent) +
                                        " had died before its death signal was set");
  }
  return {};
}

std::vector<unsigned> allowed_cpus() {
  // 8192 CPUs are more than any kernel is built for; the fixed cpu_set_t ends at 1024.
  constexpr unsigned kMaxCpus = 8192;
  std::vector<unsigned> cpus;
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  CHECK(set != nullptr, "memory for a CPU set");
  const std::size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  CPU_ZERO_S(size, set);
  if (::sched_getaffinity(0, size, set) == 0) {
    for (unsigned cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

unsigned cpu_count() {
  return static_cast<unsigned>(allowed_cpus().size());
}

Result<void> pin_thread_to(unsigned cpu) {
  const std::vector<unsigned> cpus = allowed_cpus();
  if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) {
    std::string list;
    for (unsigned one : cpus) list += (list.empty() ? "" : ", ") + std::to_string(one);
    return fail(ErrorCode::kInvalidArgument,
                "CPU " + std::to_string(cpu) + " may not be used by this thread; allowed: " + list);
  }
  cpu_set_t* set = CPU_ALLOC(cpu + 1);
  CHECK(set != nullptr, "memory for a CPU set");
  const std::size_t size = CPU_ALLOC_SIZE(cpu + 1);
  CPU_ZERO_S(size, set);
  CPU_SET_S(cpu, size, set);
  const int rc = ::sched_setaffinity(0, size, set);
  const int error_number = errno;
  CPU_FREE(set);
  if (rc != 0) return system_failure("sched_setaffinity", error_number);
  return {};
}

}  // namespace orlop
