// SPDX-License-Identifier: Apache-2.0
#include "platform/kernel_features.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "platform/file_descriptor.h"
#include "platform/memory_file.h"
#include "platform/small_file.h"
#include "platform/system_error.h"
#include "platform/text_fields.h"

namespace orlop {
namespace {

// Missing in the headers of Debian 12 (Linux 6.1): include/uapi/asm-generic/socket.h of Linux 6.5.
constexpr int kSoPeerPidFd = 77;
constexpr std::size_t kPageBytes = 4096;

FeatureProbe failed(std::string_view call, int error_number) {
  return {false, std::string(call) + ": " + errno_text(error_number)};
}

FeatureProbe probe_memory_files() {
  const auto file = MemoryFile::create({.name = "orlop-probe", .bytes = kPageBytes});
  if (!file) return {false, file.error().message};
  return {true, ""};
}

FeatureProbe probe_advice(const char* name, int advice) {
  void* page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return failed("mmap", errno);
  FeatureProbe probe{true, ""};
  if (::madvise(page, kPageBytes, advice) != 0) probe = failed(name, errno);
  ::munmap(page, kPageBytes);
  return probe;
}

FeatureProbe probe_pidfd() {
  const FileDescriptor own(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return own ? FeatureProbe{true, ""} : failed("pidfd_open", errno);
}

FeatureProbe probe_peer_pidfd() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return failed("socketpair", errno);
  }
  const FileDescriptor first(ends[0]), second(ends[1]);
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(first.get(), SOL_SOCKET, kSoPeerPidFd, &fd, &size) != 0) {
    return failed("SO_PEERPIDFD", errno);
  }
  const FileDescriptor peer(fd);
  return {true, ""};
}

FeatureProbe probe_io_uring() {
  io_uring_params parameters{};
  const FileDescriptor ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters)));
  return ring ? FeatureProbe{true, ""} : failed("io_uring_setup", errno);
}

}  // namespace

std::string chosen_word(std::string_view text) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) return {};
  text.remove_prefix(open + 1);
  const std::size_t close = text.find(']');
  return close == std::string_view::npos ? std::string() : std::string(text.substr(0, close));
}

KernelFeatures probe_kernel(const std::string& root) {
  KernelFeatures features;
  utsname name{};
  if (::uname(&name) == 0) features.release = name.release;
  features.memory_files = probe_memory_files();
  features.wipe_on_fork = probe_advice("MADV_WIPEONFORK", MADV_WIPEONFORK);
  features.dont_fork = probe_advice("MADV_DONTFORK", MADV_DONTFORK);
  features.pidfd = probe_pidfd();
  features.peer_pidfd = probe_peer_pidfd();
  features.io_uring = probe_io_uring();
  if (const auto text = read_text_file(root + "/proc/sys/kernel/io_uring_disabled")) {
    std::string_view rest = *text;
    if (const auto value = to_number(take_word(rest))) {
      features.io_uring_disabled = static_cast<int>(*value);
    }
  }
  const auto shared = read_text_file(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (shared) features.shared_huge_pages = chosen_word(*shared);
  return features;
}

}  // namespace orlop
