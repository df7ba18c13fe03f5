// SPDX-License-Identifier: Apache-2.0
// Test support: memory whose first touch after stall() waits until the test lets it go on, so that
// a copy is caught in the middle and not by luck (userfaultfd, faults of user mode only: no
// privilege).
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace orlop::client::testing {

class StalledMemory {
 public:
  explicit StalledMemory(std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
    fd_ =
        static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
    CHECK(fd_ >= 0, "userfaultfd");
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    CHECK(::ioctl(fd_, UFFDIO_API, &api) == 0);
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data_ != MAP_FAILED);
  }
  ~StalledMemory() {
    release();
    ::close(fd_);
    ::munmap(data_, bytes_);
  }
  StalledMemory(const StalledMemory&) = delete;
  StalledMemory& operator=(const StalledMemory&) = delete;

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  // From now on; what it held is forgotten. Not from the beginning on: the kernel may be asked to
  // read it before (readable_memory.h), and does not wait.
  void stall() {
    CHECK(::madvise(data_, bytes_, MADV_DONTNEED) == 0);
    uffdio_register range{
        .range = {address(), bytes_}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    CHECK(::ioctl(fd_, UFFDIO_REGISTER, &range) == 0);
    stalled_ = true;
  }
  // Somebody stands at it.
  bool wait_touched(int timeout_ms = 20'000) const {
    pollfd poll{fd_, POLLIN, 0};
    return ::poll(&poll, 1, timeout_ms) == 1;
  }
  // All of it is zeros from now on; who stands at it goes on (unregistering wakes).
  void release() {
    if (!stalled_) return;
    stalled_ = false;
    uffdio_range range{address(), bytes_};
    CHECK(::ioctl(fd_, UFFDIO_UNREGISTER, &range) == 0);
  }

 private:
  std::size_t bytes_;
  int fd_ = -1;
  void* data_ = nullptr;
  bool stalled_ = false;
};

}  // namespace orlop::client::testing
