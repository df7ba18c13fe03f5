// SPDX-License-Identifier: Apache-2.0
#include "platform/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

#include "platform/clock.h"
#include "platform/event_fd.h"
#include "platform/file_lock.h"
#include "platform/poll_wait.h"
#include "platform/test_process.h"
#include "platform/unix_socket.h"

namespace orlop {
namespace {

// Long enough for any machine; never waited for when things work.
MonoNs soon() {
  return monotonic_ns() + 30 * kNsPerSecond;
}

TEST(PidFd, Fires_when_the_process_is_killed_and_not_before) {
  ForkedChild child(sleep_until_killed);
  auto pidfd = PidFd::of_process(child.pid());
  ORLOP_ASSERT_OK(pidfd);
  EXPECT_EQ(::fcntl(pidfd->fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(pidfd->has_exited());
  EXPECT_FALSE(*pidfd->wait_exit(monotonic_ns() + kNsPerMs));
  ORLOP_ASSERT_OK(pidfd->send_signal(SIGKILL));
  EXPECT_TRUE(*pidfd->wait_exit(soon()));
  EXPECT_TRUE(pidfd->has_exited());  // a zombie counts as dead
  EXPECT_EQ(child.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(pidfd->has_exited());
  EXPECT_EQ(pidfd->send_signal(0).error().code, ErrorCode::kClosed);
}

TEST(PidFd, Dead_and_waited_for_process_is_closed) {
  ForkedChild child([] { return 0; });
  const pid_t pid = child.pid();
  child.wait();
  EXPECT_EQ(PidFd::of_process(pid).error().code, ErrorCode::kClosed);
}

TEST(PidFd, Invalid_pid_is_refused) {
  EXPECT_EQ(PidFd::of_process(0).error().code, ErrorCode::kRefused);
}

TEST(PidFd, Adopt_takes_only_pidfds) {
  auto own = PidFd::of_process(::getpid());
  ORLOP_ASSERT_OK(own);
  ORLOP_EXPECT_OK(PidFd::adopt(std::move(*own->descriptor().duplicate())));
  auto event = EventFd::create();
  ORLOP_ASSERT_OK(event);
  auto wrong = PidFd::adopt(std::move(*event->descriptor().duplicate()));
  EXPECT_EQ(wrong.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(PidFd::adopt(FileDescriptor()).error().code, ErrorCode::kCorrupt);
}

// A child that connects, says hello, and lives until it is killed. Its own child keeps the socket
// open, so that only a pidfd can tell of the death.
class ConnectedPeer {
 public:
  ConnectedPeer() {
    const std::string path = folder_ / "s";
    auto lock = FileLock::acquire(path);
    auto listener = UnixListener::listen(path, *lock);
    if (!listener) std::abort();
    child_.emplace([&] {
      auto socket = connect_unix(path, soon());
      return socket ? sleep_until_killed() : 1;
    });
    if (!*wait_readable(listener->fd(), soon())) std::abort();
    socket_ = std::move(**listener->accept());
  }
  int socket() const { return socket_.get(); }
  ForkedChild& child() { return *child_; }

 private:
  TestFolder folder_;
  std::optional<ForkedChild> child_;
  FileDescriptor socket_;
};

TEST(PidFd, Of_peer_is_the_process_that_connected) {
  ConnectedPeer peer;
  auto credentials = peer_credentials(peer.socket());
  ORLOP_ASSERT_OK(credentials);
  EXPECT_EQ(credentials->pid, peer.child().pid());
  EXPECT_EQ(credentials->uid, ::geteuid());
  auto pidfd = PidFd::of_peer(peer.socket());
  ORLOP_ASSERT_OK(pidfd);
  EXPECT_EQ(::fcntl(pidfd->fd(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(pidfd->has_exited());
  ::kill(peer.child().pid(), SIGKILL);
  EXPECT_TRUE(*pidfd->wait_exit(soon()));
}

TEST(PidFd, Of_dead_peer_never_looks_alive) {
  ConnectedPeer peer;
  peer.child().kill_and_wait();
  auto pidfd = PidFd::of_peer(peer.socket());
  if (pidfd) {
    EXPECT_TRUE(pidfd->has_exited());
  } else {
    EXPECT_EQ(pidfd.error().code, ErrorCode::kClosed) << pidfd.error().message;
  }
}

TEST(PidFd, Of_peer_without_a_socket_is_a_system_error) {
  EXPECT_EQ(PidFd::of_peer(-1).error().code, ErrorCode::kSystem);
  auto event = EventFd::create();
  EXPECT_EQ(PidFd::of_peer(event->fd()).error().code, ErrorCode::kSystem);
}

TEST(ReapChild, Gives_exit_code_or_signal_once) {
  ForkedChild exits([] { return 7; });
  auto pidfd = PidFd::of_process(exits.pid());
  ORLOP_ASSERT_OK(pidfd);
  auto status = reap_child(*pidfd, soon());
  ORLOP_ASSERT_OK(status);
  exits.forget();
  EXPECT_EQ(to_string(**status), "exit code 7");
  EXPECT_EQ(reap_child(*pidfd, soon()).error().code, ErrorCode::kWrongState);

  ForkedChild dies(sleep_until_killed);
  auto second = PidFd::of_process(dies.pid());
  ORLOP_ASSERT_OK(second);
  auto early = reap_child(*second, 0);
  ORLOP_ASSERT_OK(early);
  EXPECT_FALSE(early->has_value());
  ORLOP_ASSERT_OK(second->send_signal(SIGTERM));
  status = reap_child(*second, soon());
  ORLOP_ASSERT_OK(status);
  dies.forget();
  EXPECT_EQ(to_string(**status), "signal 15 (SIGTERM)");
}

TEST(ReapChild, Stranger_is_refused_without_waiting) {
  auto own = PidFd::of_process(::getpid());
  ORLOP_ASSERT_OK(own);
  EXPECT_EQ(reap_child(*own, kNever).error().code, ErrorCode::kWrongState);
}

TEST(ParentDeathSignal, Child_dies_with_its_parent) {
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  // parent -> child; only the child keeps the write end.
  ForkedChild parent([&] {
    const pid_t self = ::getpid();
    ForkedChild child([&] {
      if (!set_parent_death_signal(SIGKILL, self)) return 1;
      const char ready = 1;
      return ::write(pipe->write_end.get(), &ready, 1) == 1 ? sleep_until_killed() : 1;
    });
    pipe->write_end.reset();
    return sleep_until_killed();
  });
  pipe->write_end.reset();
  char byte = 0;
  ASSERT_TRUE(*wait_readable(pipe->read_end.get(), soon()));
  ASSERT_EQ(::read(pipe->read_end.get(), &byte, 1), 1);
  parent.kill_and_wait();
  ASSERT_TRUE(*wait_readable(pipe->read_end.get(), soon()));
  EXPECT_EQ(::read(pipe->read_end.get(), &byte, 1), 0);
}

TEST(ParentDeathSignal, Parent_dead_already_is_told) {
  ForkedChild child([] {
    auto set = set_parent_death_signal(SIGTERM, ::getppid() + 1);
    return !set && set.error().code == ErrorCode::kClosed ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Cpu, Pinned_thread_runs_there_only) {
  const auto cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_EQ(cpu_count(), cpus.size());
  std::thread([&] {
    ORLOP_EXPECT_OK(pin_thread_to(cpus.back()));
    EXPECT_EQ(allowed_cpus(), std::vector<unsigned>{cpus.back()});
    EXPECT_EQ(::sched_getcpu(), static_cast<int>(cpus.back()));
  }).join();
  EXPECT_EQ(allowed_cpus(), cpus);
  auto refused = pin_thread_to(100000);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace orlop
