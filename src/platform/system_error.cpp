// SPDX-License-Identifier: Apache-2.0
#include "platform/system_error.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace orlop {
namespace {

std::string_view usual_remedy(int error_number) {
  switch (error_number) {
    case EMFILE:
      return "raise the limit of open files of this process (ulimit -n, LimitNOFILE=)";
    case ENFILE:
      return "raise the machine's limit of open files (sysctl fs.file-max)";
    case ENOMEM:
      return "free memory, or configure less (memory.capacity)";
    case EACCES:
    case EPERM:
      return "run as a user who may do this, or change the permissions";
    case ENOSYS:
      return "use a newer kernel, or allow the call in the container's seccomp profile";
    case EAGAIN:
      return "try again; if it stays, raise the limit of processes (ulimit -u, pids.max)";
    case EROFS:
      return "choose a path on a writable file system";
    case ENOSPC:
      return "free space on the file system";
    case ENOENT:
      return "check that the path exists (is /proc mounted?)";
    default:
      return {};
  }
}

}  // namespace

std::string errno_text(int error_number) {
  std::string text;
  const char* words = ::strerrordesc_np(error_number);
  const char* name = ::strerrorname_np(error_number);
  text += words != nullptr ? words : "unknown error";
  text += " (";
  text += name != nullptr ? std::string(name) : "errno " + std::to_string(error_number);
  text += ")";
  return text;
}

std::unexpected<Error> system_failure(std::string_view call, int error_number,
                                      std::string_view remedy, ErrorCode code) {
  std::string message(call);
  message += " failed: ";
  message += errno_text(error_number);
  if (remedy.empty()) remedy = usual_remedy(error_number);
  if (!remedy.empty()) {
    message += "; ";
    message += remedy;
  }
  return fail(code, std::move(message));
}

}  // namespace orlop
