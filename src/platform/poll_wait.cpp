// SPDX-License-Identifier: Apache-2.0
#include "platform/poll_wait.h"

#include <poll.h>

#include <cerrno>
#include <ctime>

#include "platform/clock.h"
#include "platform/system_error.h"

namespace orlop {
namespace {

Result<bool> wait_for(int fd, short events, MonoNs deadline) {
  pollfd watched{fd, events, 0};
  for (;;) {
    timespec left{};
    if (deadline != kNever) {
      const MonoNs ns = time_left(deadline, monotonic_ns());
      left.tv_sec = static_cast<time_t>(ns / kNsPerSecond);
      left.tv_nsec = static_cast<long>(ns % kNsPerSecond);
    }
    const int ready = ::ppoll(&watched, 1, deadline == kNever ? nullptr : &left, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return system_failure("ppoll", errno);
    if (ready == 0) return false;
    if ((watched.revents & POLLNVAL) != 0) return system_failure("ppoll", EBADF);
    return true;
  }
}

}  // namespace

Result<bool> wait_readable(int fd, MonoNs deadline) {
  return wait_for(fd, POLLIN, deadline);
}
Result<bool> wait_writable(int fd, MonoNs deadline) {
  return wait_for(fd, POLLOUT, deadline);
}

}  // namespace orlop
