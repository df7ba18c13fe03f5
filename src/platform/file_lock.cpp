// SPDX-License-Identifier: Apache-2.0
#include "platform/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/small_file.h"
#include "platform/system_error.h"
#include "platform/text_fields.h"

namespace orlop {
namespace {

// A cleaner of /tmp may remove the file between our open and our lock; then the lock is on a file
// that nobody else will find.
constexpr int kMaxTries = 10;

bool still_at(const std::string& path, int fd) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::unexpected<Error> owned(const std::string& socket_path, const std::string& path) {
  std::string owner = "an unknown process";
  if (auto text = read_text_file(path, 64)) {
    std::string_view rest = *text;
    // Empty for a moment while the owner starts, and where its disk was full.
    if (const auto pid = to_number(take_word(rest))) owner = "process " + std::to_string(*pid);
  }
  return fail(ErrorCode::kAddressInUse, "another daemon (" + owner + ") owns " + socket_path +
                                            "; stop it, or choose another path (ORLOP_SOCKET)");
}

// For messages only: on a full disk the lock is held all the same.
void write_pid(int fd) {
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

}  // namespace

Result<FileLock> FileLock::acquire(const std::string& socket_path) {
  FileLock lock;
  lock.path_ = socket_path + ".lock";
  for (int tries = 0; tries < kMaxTries; ++tries) {
    lock.descriptor_ =
        FileDescriptor(::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!lock.descriptor_) {
      const bool refused = errno == EACCES || errno == EPERM || errno == ELOOP;
      return system_failure("open(" + lock.path_ + ")", errno,
                            errno == ENOENT ? "make the folder first" : "",
                            refused ? ErrorCode::kRefused : ErrorCode::kSystem);
    }
    int rc = 0;
    do {
      rc = ::flock(lock.fd(), LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno == EWOULDBLOCK) return owned(socket_path, lock.path_);
    if (rc != 0) return system_failure("flock(" + lock.path_ + ")", errno);
    if (!still_at(lock.path_, lock.fd())) continue;
    write_pid(lock.fd());
    return lock;
  }
  return fail(ErrorCode::kSystem, "flock(" + lock.path_ +
                                      "): the file is removed by somebody as "
                                      "often as it is made; stop that");
}

}  // namespace orlop
