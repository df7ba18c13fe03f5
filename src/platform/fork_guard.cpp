// SPDX-License-Identifier: Apache-2.0
#include "platform/fork_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

#include "base/bytes.h"
#include "platform/system_error.h"

namespace orlop {
namespace {

// No locks in this file: a fork in the middle of anything must leave the child able to go on.

using Life = std::atomic<std::uint64_t>;
static_assert(Life::is_always_lock_free);

constinit std::atomic<Life*> g_life_page{nullptr};
// Highest life ever used here or in an ancestor: raised before the page is written, so a child
// never reuses the number of an object it inherited.
constinit std::atomic<std::uint64_t> g_last_life{0};
// Which life made the pipe (high 32 bits) and its read end (low 32 bits); 0: none.
constinit std::atomic<std::uint64_t> g_fork_pipe{0};

// Null with errno set when the page cannot be had.
Life* life_page() {
  Life* page = g_life_page.load(std::memory_order_acquire);
  if (page != nullptr) return page;
  void* raw =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (::madvise(raw, kPageBytes, MADV_WIPEONFORK) != 0) {
    const int saved = errno;
    ::munmap(raw, kPageBytes);
    errno = saved;
    return nullptr;
  }
  Life* fresh = new (raw) Life(0);
  if (g_life_page.compare_exchange_strong(page, fresh, std::memory_order_acq_rel)) return fresh;
  ::munmap(raw, kPageBytes);
  return page;
}

std::uint64_t current_life(Life& page) {
  std::uint64_t life = page.load(std::memory_order_relaxed);
  if (life != 0) return life;
  const std::uint64_t next = g_last_life.fetch_add(1, std::memory_order_relaxed) + 1;
  return page.compare_exchange_strong(life, next, std::memory_order_relaxed) ? next : life;
}

constexpr std::uint64_t pack(std::uint64_t life, int fd) {
  return (life << 32) | static_cast<std::uint32_t>(fd);
}
constexpr bool made_by(std::uint64_t word, std::uint64_t life) {
  return word != 0 && (word >> 32) == (life & 0xffffffff);
}
constexpr int read_end_of(std::uint64_t word) {
  return static_cast<int>(word & 0xffffffff);
}

// The read end, or -1 with errno. The write end has no owner: it stays open as long as this process
// and everything forked from it.
int pipe_of_this_life() {
  Life* page = life_page();
  if (page == nullptr) return -1;
  const std::uint64_t life = current_life(*page);
  std::uint64_t word = g_fork_pipe.load(std::memory_order_acquire);
  if (made_by(word, life)) return read_end_of(word);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  const std::uint64_t inherited = word;
  if (g_fork_pipe.compare_exchange_strong(word, pack(life, ends[0]), std::memory_order_acq_rel)) {
    // The parent's pipe: its write end stays, its read end has no use here.
    if (inherited != 0) ::close(read_end_of(inherited));
    return ends[0];
  }
  // Another thread was first.
  ::close(ends[0]);
  ::close(ends[1]);
  return read_end_of(word);
}

void in_child_after_fork() {
  // A failure is told by fork_pipe_read_end, which tries again.
  const int saved = errno;
  pipe_of_this_life();
  errno = saved;
}

[[gnu::constructor]] void at_library_load() {
  pipe_of_this_life();
  ::pthread_atfork(nullptr, nullptr, in_child_after_fork);
}

}  // namespace

Result<ForkGuard> ForkGuard::create() {
  Life* page = life_page();
  if (page == nullptr) {
    return system_failure("madvise(MADV_WIPEONFORK)", errno, "use Linux 4.14 or newer");
  }
  ForkGuard guard;
  guard.life_ = page;
  guard.mine_ = current_life(*page);
  return guard;
}

Result<int> fork_pipe_read_end() {
  const int fd = pipe_of_this_life();
  if (fd < 0) return system_failure("pipe2 (fork pipe)", errno);
  return fd;
}

Result<FileDescriptor> fork_pipe_to_send() {
  const auto shared = fork_pipe_read_end();
  if (!shared) return std::unexpected<Error>(shared.error());
  const std::string path = "/proc/self/fd/" + std::to_string(*shared);
  FileDescriptor own(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!own) own = FileDescriptor(::fcntl(*shared, F_DUPFD_CLOEXEC, 0));
  if (!own) return system_failure("fcntl(F_DUPFD_CLOEXEC, fork pipe)", errno);
  return own;
}

Result<bool> fork_pipe_ended(int read_end) {
  struct stat info{};
  if (::fstat(read_end, &info) != 0) return system_failure("fstat(fork pipe)", errno);
  if (!S_ISFIFO(info.st_mode)) {
    return fail(ErrorCode::kCorrupt,
                "the descriptor received as a fork pipe is no pipe; close the connection");
  }
  // Not read: O_NONBLOCK belongs to the peer as much as to us, and POLLHUP says it all.
  pollfd watched{read_end, 0, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, 0);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return system_failure("poll(fork pipe)", errno);
  return (watched.revents & POLLHUP) != 0;
}

}  // namespace orlop
