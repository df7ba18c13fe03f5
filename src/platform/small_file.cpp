// SPDX-License-Identifier: Apache-2.0
#include "platform/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "platform/file_descriptor.h"
#include "platform/system_error.h"

namespace orlop {

Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_failure("open(" + path + ")", errno);
  std::string text;
  // /proc files have no size: read until the end. Large reads, because smaps is made per read.
  constexpr std::size_t kStep = 64 * 1024;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kStep);
    const ssize_t got = ::read(file.get(), text.data() + before, kStep);
    if (got < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (got < 0) return system_failure("read(" + path + ")", errno);
    text.resize(before + static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      return fail(ErrorCode::kLimit,
                  path + " is longer than the limit of " + std::to_string(max_bytes) + " bytes");
    }
    if (got == 0) return text;
  }
}

}  // namespace orlop
