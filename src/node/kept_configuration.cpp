// SPDX-License-Identifier: Apache-2.0
#include "node/kept_configuration.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "node/option_file.h"
#include "platform/small_file.h"
#include "platform/system_error.h"

namespace orlop::node {
namespace {

constexpr unsigned kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<FileDescriptor> copy_of_configuration(const std::string& path) {
  // A pipe would be read up, or waited for; the keeper waits for nothing.
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return system_failure("stat(" + path + ")", errno);
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::kInvalidArgument, path + " is no regular file");
  const auto text = read_text_file(path, kMaxOptionFileBytes);
  if (!text) return std::unexpected<Error>(text.error());
  FileDescriptor copy(::memfd_create("orlop-configuration", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!copy) return system_failure("memfd_create(orlop-configuration)", errno);
  for (std::size_t at = 0; at < text->size();) {
    const ssize_t wrote = ::write(copy.get(), text->data() + at, text->size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return system_failure("write(orlop-configuration)", errno);
    at += static_cast<std::size_t>(wrote);
  }
  if (::fcntl(copy.get(), F_ADD_SEALS, kSeals) != 0)
    return system_failure("fcntl(F_ADD_SEALS, orlop-configuration)", errno);
  return copy;
}

std::string configuration_path(int copy) {
  return "/proc/self/fd/" + std::to_string(copy);
}

}  // namespace orlop::node
