// SPDX-License-Identifier: Apache-2.0
#include "platform/event_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "platform/poll_wait.h"
#include "platform/system_error.h"

namespace orlop {

Result<EventFd> EventFd::create() {
  EventFd made;
  made.descriptor_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.descriptor_) return system_failure("eventfd", errno);
  return made;
}

Result<EventFd> EventFd::adopt(FileDescriptor descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor.get());
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length < 0 ||
      std::string_view(target, static_cast<std::size_t>(length)) != "anon_inode:[eventfd]") {
    return fail(ErrorCode::kCorrupt,
                "the descriptor received as a doorbell is no eventfd; close the connection");
  }
  const int flags = ::fcntl(descriptor.get(), F_GETFL);
  if (flags < 0 || ::fcntl(descriptor.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_failure("fcntl(F_SETFL, O_NONBLOCK)", errno);
  }
  EventFd adopted;
  adopted.descriptor_ = std::move(descriptor);
  return adopted;
}

void EventFd::ring() const {
  const std::uint64_t one = 1;
  ssize_t written = 0;
  do {
    written = ::write(fd(), &one, sizeof one);
  } while (written < 0 && errno == EINTR);
  // EAGAIN: the counter is full, so the sleeper is being woken already.
  CHECK(written == sizeof one || errno == EAGAIN, "ring of a doorbell that is not open");
}

bool EventFd::drain() const {
  std::uint64_t rings = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd(), &rings, sizeof rings);
  } while (got < 0 && errno == EINTR);
  CHECK(got == sizeof rings || errno == EAGAIN, "drain of a doorbell that is not open");
  return got == sizeof rings;
}

Result<bool> EventFd::wait(MonoNs deadline) const {
  return wait_readable(fd(), deadline);
}

}  // namespace orlop
