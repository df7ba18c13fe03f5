// SPDX-License-Identifier: Apache-2.0
// Lives and deaths of processes: whose socket this is, proof that it died, starting a child.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

struct PeerCredentials {
  pid_t pid = 0;  // 0: the peer lives in a pid namespace that we cannot see
  uid_t uid = 0;
  gid_t gid = 0;
};
// Who made the other end of a connected Unix socket (SO_PEERCRED): the kernel's word, not the
// peer's.
Result<PeerCredentials> peer_credentials(int socket);

// A descriptor of a process: becomes readable (poll, epoll: EPOLLIN) when the process has died, and
// never means another process that got the same pid later. May be passed to other processes.
// A process that is dead but not yet waited for counts as dead.
class PidFd {
 public:
  PidFd() = default;
  // Takes a pidfd that came from another process of ours. Errors: kCorrupt (is no pidfd).
  static Result<PidFd> adopt(FileDescriptor descriptor);

  // The process at the other end of a connected Unix socket: SO_PEERPIDFD (Linux 6.5), else
  // pidfd_open of the SO_PEERCRED pid. Errors:
  //   kClosed   the peer is dead already;
  //   kRefused  no pidfd can be had for this peer (foreign pid namespace, old kernel, sandbox): its
  //             death could not be proved;
  //   kSystem   anything else (out of descriptors).
  static Result<PidFd> of_peer(int socket);
  // pidfd_open. Safe against pid reuse only for one's own children and oneself. Errors as of_peer.
  static Result<PidFd> of_process(pid_t pid);

  int fd() const { return descriptor_.get(); }
  const FileDescriptor& descriptor() const { return descriptor_; }
  explicit operator bool() const { return static_cast<bool>(descriptor_); }

  // True once the process is dead. One poll syscall, never waits.
  bool has_exited() const;
  // Waits until death (true) or the deadline (false). deadline: CLOCK_MONOTONIC, kNever allowed.
  Result<bool> wait_exit(MonoNs deadline) const;
  // Errors: kClosed (dead already), kRefused (not permitted), kSystem.
  Result<void> send_signal(int signal_number) const;

 private:
  FileDescriptor descriptor_;
};

struct ExitStatus {
  bool by_signal = false;
  int value = 0;  // exit code, or the signal's number
};
std::string to_string(const ExitStatus& status);  // "exit code 3", "signal 9 (SIGKILL)"

// Waits for a child's end and takes its status off the kernel. None: the deadline passed first.
// Errors: kWrongState (not our child, or taken already), kSystem.
Result<std::optional<ExitStatus>> reap_child(const PidFd& child, MonoNs deadline);

// The calling process gets this signal when the *thread* that created it ends; so create such
// children from a thread that lives as long as the process. 0 turns it off.
// Errors: kClosed when the parent is no longer expected_parent (it died before the call).
Result<void> set_parent_death_signal(int signal_number, pid_t expected_parent);

// One descriptor of the child: fd of ours appears there under number.
struct KeptDescriptor {
  int fd = -1;
  int number = -1;
};

struct SpawnRequest {
  std::string path;                    // of the program; no PATH search
  std::vector<std::string> arguments;  // argv, argv[0] included
  // "NAME=value"; none: our environment.
  std::optional<std::vector<std::string>> environment;
  // Exactly these descriptors live in the child, and 0, 1, 2 (ours, unless a number here replaces
  // them). Numbers distinct, below kMaxKeptNumber.
  std::vector<KeptDescriptor> keep;
  int parent_death_signal = 0;  // 0: none
};
inline constexpr int kMaxKeptNumber = 256;

struct Child {
  pid_t pid = 0;
  PidFd pidfd;
};

// Starts a program (fork + exec). Returns after exec has succeeded; a failed exec is an error here,
// not a dead child. The child starts with no blocked signals. Not reaped at the end of Child: call
// reap_child. Requires SIGCHLD not ignored.
// Errors: kInvalidArgument (descriptor list), kSystem (which step failed in the child, errno).
Result<Child> spawn(const SpawnRequest& request);

// CPUs that this process may run on (affinity), at least 1.
unsigned cpu_count();
// Their numbers, ascending.
std::vector<unsigned> allowed_cpus();
// The calling thread only. Errors: kInvalidArgument (not allowed; the allowed ones are named).
Result<void> pin_thread_to(unsigned cpu);

}  // namespace orlop
