// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/clock.h"
#include "platform/system_error.h"

namespace orlop {
namespace {

constexpr int kBacklog = 128;
constexpr mode_t kSocketMode = 0660;
static_assert(sizeof(sockaddr_un::sun_path) == kMaxSocketPathBytes + 1);

Result<sockaddr_un> address_of(const std::string& path) {
  if (path.empty() || path.size() > kMaxSocketPathBytes || path.find('\0') != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "socket path '" + path + "' has " + std::to_string(path.size()) +
                    " bytes, allowed are 1 to " + std::to_string(kMaxSocketPathBytes) +
                    "; choose a shorter one (ORLOP_SOCKET)");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Result<FileDescriptor> new_socket(int extra_flags) {
  FileDescriptor made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | extra_flags, 0));
  if (!made) return system_failure("socket(AF_UNIX, SOCK_SEQPACKET)", errno);
  return made;
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_failure("fcntl(F_SETFL, O_NONBLOCK)", errno);
  }
  return {};
}

// A Unix connect waits only for room in the backlog, and a non-blocking one does not even do that
// (EAGAIN, with nothing to poll for). So it blocks, for as long as the send timeout says.
Result<void> limit_connect_time(int fd, MonoNs left) {
  if (left == 0) return set_nonblocking(fd);
  if (left == kNever) return {};
  const MonoNs us = left / kNsPerUs + 1;  // never 0, which would mean "no limit"
  timeval timeout{};
  timeout.tv_sec = static_cast<time_t>(us / 1'000'000);
  timeout.tv_usec = static_cast<suseconds_t>(us % 1'000'000);
  if (::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0) {
    return system_failure("setsockopt(SO_SNDTIMEO)", errno);
  }
  return {};
}

std::unexpected<Error> connect_failure(const std::string& path, int error_number) {
  const std::string call = "connect(" + path + ")";
  switch (error_number) {
    case EAGAIN:
      return system_failure(call, error_number, "the daemon accepts nobody; see its log",
                            ErrorCode::kDeadline);
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
      return system_failure(call, error_number,
                            "no daemon runs there: start orlopd, or set ORLOP_SOCKET",
                            ErrorCode::kNoNode);
    case EACCES:
    case EPERM:
      return system_failure(call, error_number,
                            "the socket is open to its owner and group only (0660)",
                            ErrorCode::kRefused);
    default:
      return system_failure(call, error_number);
  }
}

// Removes a socket file that nobody answers. The lock is held, so no daemon of ours is about to.
Result<void> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return system_failure("lstat(" + path + ")", errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return fail(ErrorCode::kAddressInUse,
                path +
                    " exists and is no socket; it is left alone: remove it, or choose another "
                    "path (ORLOP_SOCKET)");
  }
  auto probe = new_socket(SOCK_NONBLOCK);
  if (!probe) return std::unexpected(probe.error());
  const int rc = ::connect(probe->get(), generic(address), sizeof address);
  if (rc == 0 || errno != ECONNREFUSED) {
    // EAGAIN (backlog full), EPROTOTYPE (a socket of another type): somebody is there.
    return fail(ErrorCode::kAddressInUse, "another process answers at " + path +
                                              "; stop it, or choose another path (ORLOP_SOCKET)");
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return system_failure("unlink(" + path + ")", errno);
  }
  return {};
}

}  // namespace

Result<UnixListener> UnixListener::listen(const std::string& path, const FileLock& lock) {
  auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  if (!lock.held() || lock.path() != path + ".lock") {
    return fail(ErrorCode::kInvalidArgument,
                "listen(" + path + "): the lock of this path is not held; acquire it first");
  }
  if (auto clear = clear_path(path, *address); !clear) return std::unexpected(clear.error());
  auto socket = new_socket(SOCK_NONBLOCK);
  if (!socket) return std::unexpected(socket.error());
  // Before bind, so that the file never has more rights than it will; after, because the umask may
  // have taken some.
  if (::fchmod(socket->get(), kSocketMode) != 0) return system_failure("fchmod(socket)", errno);
  if (::bind(socket->get(), generic(*address), sizeof *address) != 0) {
    return system_failure("bind(" + path + ")", errno,
                          errno == ENOENT ? "make the folder first" : "",
                          errno == EADDRINUSE ? ErrorCode::kAddressInUse : ErrorCode::kSystem);
  }
  UnixListener made;
  made.descriptor_ = std::move(*socket);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return system_failure("lstat(" + path + ")", errno);
  // From here on close() removes the path.
  made.path_ = path;
  made.device_ = info.st_dev;
  made.inode_ = info.st_ino;
  if (::chmod(path.c_str(), kSocketMode) != 0) return system_failure("chmod(" + path + ")", errno);
  if (::listen(made.fd(), kBacklog) != 0) return system_failure("listen(" + path + ")", errno);
  return made;
}

Result<UnixListener> UnixListener::adopt(FileDescriptor descriptor) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(descriptor.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 ||
      listening == 0) {
    return fail(ErrorCode::kCorrupt, "the descriptor received is no listening socket");
  }
  if (auto set = set_nonblocking(descriptor.get()); !set) return std::unexpected(set.error());
  UnixListener adopted;
  adopted.descriptor_ = std::move(descriptor);
  return adopted;
}

Result<std::optional<FileDescriptor>> UnixListener::accept() {
  for (;;) {
    FileDescriptor peer(::accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer) return std::optional<FileDescriptor>(std::move(peer));
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return std::optional<FileDescriptor>{};
    const bool exhausted = errno == EMFILE || errno == ENFILE;
    return system_failure("accept4", errno, {}, exhausted ? ErrorCode::kLimit : ErrorCode::kSystem);
  }
}

void UnixListener::close() {
  // The path first: whoever finds it gone waits for the next daemon instead of being reset.
  struct stat info{};
  if (!path_.empty() && ::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
  path_.clear();
  descriptor_.reset();
}

Result<FileDescriptor> connect_unix(const std::string& path, MonoNs deadline) {
  auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  auto socket = new_socket(0);
  if (!socket) return std::unexpected(socket.error());
  for (;;) {
    const MonoNs left = time_left(deadline, monotonic_ns());
    if (auto set = limit_connect_time(socket->get(), left); !set) {
      return std::unexpected(set.error());
    }
    if (::connect(socket->get(), generic(*address), sizeof *address) == 0) break;
    if (errno != EINTR) return connect_failure(path, errno);
  }
  if (auto set = set_nonblocking(socket->get()); !set) return std::unexpected(set.error());
  return std::move(*socket);
}

Result<SocketPair> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return system_failure("socketpair", errno);
  }
  return SocketPair{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace orlop
