// SPDX-License-Identifier: Apache-2.0
#include "platform/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "platform/system_error.h"

namespace orlop {

void FileDescriptor::reset() {
  if (fd_ < 0) return;
  const int saved = errno;
  const int fd = std::exchange(fd_, -1);
  // Never repeated after EINTR: Linux has closed it by then, and another thread may own the number.
  // EBADF means that somebody closed our descriptor, and the next owner of the number is at risk.
  const bool foreign = ::close(fd) != 0 && errno == EBADF;
  CHECK(!foreign, "a descriptor was closed behind its owner's back");
  errno = saved;
}

Result<FileDescriptor> FileDescriptor::duplicate() const {
  if (fd_ < 0) return fail(ErrorCode::kInvalidArgument, "duplicate: no descriptor is held");
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return system_failure("fcntl(F_DUPFD_CLOEXEC)", errno);
  return FileDescriptor(copy);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return system_failure("pipe2", errno);
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace orlop
