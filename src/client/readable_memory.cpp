// SPDX-License-Identifier: Apache-2.0
#include "client/readable_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "platform/file_descriptor.h"

namespace orlop::client {

// A pipe takes a copy of the byte, so the kernel has to read it: EFAULT instead of a signal.
bool readable_byte(std::uint64_t address) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return true;  // cannot tell
  const FileDescriptor out(ends[0]), in(ends[1]);
  return ::write(in.get(), reinterpret_cast<const void*>(address), 1) == 1 || errno != EFAULT;
}

}  // namespace orlop::client
