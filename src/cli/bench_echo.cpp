// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_echo.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/exit_code.h"
#include "cli/worker_link.h"
#include "platform/clock.h"
#include "platform/system_error.h"

namespace orlop::cli {

Result<EchoProcess> EchoProcess::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_failure("socketpair", errno);
  }
  EchoProcess echo;
  echo.socket_ = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  SpawnRequest request;
  request.path = "/proc/self/exe";
  request.arguments = {"orlop", "bench-echo"};
  request.keep = {{theirs.get(), kWorkerLinkNumber}};
  request.parent_death_signal = SIGKILL;
  auto child = spawn(request);
  if (!child) return std::unexpected(child.error());
  echo.child_ = std::move(*child);
  return echo;
}

EchoProcess::~EchoProcess() {
  if (child_.pid == 0 || !child_.pidfd) return;
  (void)child_.pidfd.send_signal(SIGKILL);
  (void)reap_child(child_.pidfd, kNever);
}

Result<double> EchoProcess::round_trip() {
  char byte = 1;
  const MonoNs begin = monotonic_ns();
  if (::write(socket_.get(), &byte, 1) != 1) return system_failure("write(echo)", errno);
  const ssize_t got = ::read(socket_.get(), &byte, 1);
  const MonoNs end = monotonic_ns();
  if (got < 0) return system_failure("read(echo)", errno);
  if (got == 0) return fail(ErrorCode::kClosed, "the echo process has gone");
  return static_cast<double>(end - begin) / 1e9;
}

int bench_echo_main() {
  ::signal(SIGINT, SIG_IGN);
  char byte = 0;
  while (::read(kWorkerLinkNumber, &byte, 1) == 1) {
    if (::write(kWorkerLinkNumber, &byte, 1) != 1) break;
  }
  return to_int(ExitCode::kOk);
}

}  // namespace orlop::cli
