// SPDX-License-Identifier: Apache-2.0
#include "platform/runtime_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "platform/file_descriptor.h"
#include "platform/system_error.h"

namespace orlop {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

SocketPlace place_in(const std::string& folder, mode_t mode, bool ours) {
  return SocketPlace{folder + "/orlop.sock", folder, mode, ours};
}

// Looks at the folder itself (not at where a symbolic link leads), on one open file, so that it
// cannot be exchanged between the questions.
Result<void> check_folder(const SocketPlace& place, ErrorCode when_missing) {
  const int no_follow = place.folder_must_be_ours ? O_NOFOLLOW : 0;
  FileDescriptor folder(::open(place.folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | no_follow));
  if (!folder && (errno == ENOENT || errno == EACCES)) {
    return system_failure("open(" + place.folder + ")", errno,
                          place.folder_mode == 0 ? "make the folder, or set ORLOP_SOCKET"
                                                 : "start orlopd, or set ORLOP_SOCKET",
                          errno == ENOENT ? when_missing : ErrorCode::kRefused);
  }
  if (!folder) {
    return system_failure("open(" + place.folder + ")", errno,
                          "it must be a real folder; remove it, or set ORLOP_SOCKET",
                          ErrorCode::kRefused);
  }
  if (!place.folder_must_be_ours) return {};
  struct stat info{};
  if (::fstat(folder.get(), &info) != 0) {
    return system_failure("fstat(" + place.folder + ")", errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 0077) != 0) {
    return fail(ErrorCode::kRefused,
                place.folder + " must belong to user " + std::to_string(::geteuid()) +
                    " and be closed to others (0700), because anybody could have made it; remove "
                    "it, or set ORLOP_SOCKET");
  }
  return {};
}

}  // namespace

RuntimeEnvironment RuntimeEnvironment::current() {
  return RuntimeEnvironment{variable("ORLOP_SOCKET"), variable("XDG_RUNTIME_DIR"), ::geteuid()};
}

SocketPlace explicit_socket_place(const std::string& socket_path) {
  const std::size_t slash = socket_path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : socket_path.substr(0, slash);
  return SocketPlace{socket_path, folder, 0, false};
}

SocketPlace default_socket_place(const RuntimeEnvironment& environment) {
  if (environment.orlop_socket && !environment.orlop_socket->empty()) {
    return explicit_socket_place(*environment.orlop_socket);
  }
  // Others may enter: the socket's own mode (0660) and the peer's credentials decide.
  if (environment.uid == 0) return place_in("/run/orlop", 0755, false);
  if (environment.xdg_runtime_dir && !environment.xdg_runtime_dir->empty()) {
    return place_in(*environment.xdg_runtime_dir + "/orlop", 0700, false);
  }
  return place_in("/tmp/orlop-" + std::to_string(environment.uid), 0700, true);
}

Result<void> prepare_socket_folder(const SocketPlace& place) {
  if (place.folder_mode != 0 && ::mkdir(place.folder.c_str(), place.folder_mode) != 0 &&
      errno != EEXIST) {
    return system_failure("mkdir(" + place.folder + ")", errno,
                          errno == ENOENT ? "make its parent folder, or set ORLOP_SOCKET" : "");
  }
  return check_folder(place, ErrorCode::kSystem);
}

Result<void> check_socket_folder(const SocketPlace& place) {
  return check_folder(place, ErrorCode::kNoNode);
}

}  // namespace orlop
