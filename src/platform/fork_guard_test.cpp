// SPDX-License-Identifier: Apache-2.0
#include "platform/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "platform/clock.h"
#include "platform/event_fd.h"
#include "platform/poll_wait.h"
#include "platform/process.h"
#include "platform/service_manager.h"
#include "platform/test_process.h"
#include "platform/unix_socket.h"

namespace orlop {
namespace {

MonoNs soon() {
  return monotonic_ns() + 30 * kNsPerSecond;
}

TEST(ForkGuard, Object_of_the_parent_knows_the_child) {
  auto guard = ForkGuard::create();
  ORLOP_ASSERT_OK(guard);
  EXPECT_FALSE(guard->in_forked_child());
  ForkedChild child([&] { return guard->in_forked_child() ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(guard->in_forked_child());
}

TEST(ForkGuard, Child_can_have_objects_of_its_own_down_the_generations) {
  auto guard = ForkGuard::create();
  ORLOP_ASSERT_OK(guard);
  ForkedChild child([&] {
    auto mine = ForkGuard::create();
    if (!mine || mine->in_forked_child()) return 1;
    // Giving the child a life must not revive its parent's objects.
    if (!guard->in_forked_child()) return 2;
    ForkedChild grandchild([&] {
      if (!mine->in_forked_child() || !guard->in_forked_child()) return 3;
      auto own = ForkGuard::create();
      if (!own || own->in_forked_child()) return 4;
      return mine->in_forked_child() && guard->in_forked_child() ? 0 : 5;
    });
    return grandchild.wait();
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(ForkGuard, Threads_of_one_child_agree) {
  auto guard = ForkGuard::create();
  ORLOP_ASSERT_OK(guard);
  ForkedChild child([&] {
    std::vector<ForkGuard> guards(8);
    std::vector<std::thread> threads;
    for (ForkGuard& mine : guards) {
      threads.emplace_back([&mine] { mine = *ForkGuard::create(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const ForkGuard& mine : guards) {
      if (mine.in_forked_child()) return 1;
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(ForkGuard, Unbound_guard_is_never_in_a_child) {
  const ForkGuard none;
  ForkedChild child([&] { return none.in_forked_child() ? 1 : 0; });
  EXPECT_EQ(child.wait(), 0);
}

// What a client process does at attach: sends its fork pipe to the node (us).
int send_own_pipe(int socket) {
  auto pipe = fork_pipe_read_end();
  const std::byte hello{1};
  return pipe && send_message(socket, {&hello, 1}, {&*pipe, 1}) ? 0 : 1;
}

FileDescriptor receive_pipe(int socket) {
  EXPECT_TRUE(*wait_readable(socket, soon()));
  auto received = receive_message(socket);
  EXPECT_TRUE(received.has_value());
  if (!received || received->message.descriptors.size() != 1) return {};
  return std::move(received->message.descriptors[0]);
}

// Waits as the node does: for POLLHUP alone.
bool ends_by(int pipe, MonoNs deadline) {
  pollfd watched{pipe, 0, 0};
  const MonoNs left = time_left(deadline, monotonic_ns());
  return ::poll(&watched, 1, static_cast<int>(left / kNsPerMs)) == 1;
}

TEST(ForkPipe, Ends_only_when_the_forked_helper_of_a_dead_client_has_gone) {
  auto sockets = make_socket_pair();
  auto helper_pid = make_pipe();
  ORLOP_ASSERT_OK(sockets);
  ORLOP_ASSERT_OK(helper_pid);
  ForkedChild client([&] {
    if (send_own_pipe(sockets->second.get()) != 0) return 1;
    const pid_t helper = ::fork();
    if (helper == 0) sleep_until_killed();
    return ::write(helper_pid->write_end.get(), &helper, sizeof helper) == sizeof helper
               ? sleep_until_killed()
               : 2;
  });
  const FileDescriptor pipe = receive_pipe(sockets->first.get());
  ASSERT_TRUE(pipe);
  pid_t helper = 0;
  ASSERT_TRUE(*wait_readable(helper_pid->read_end.get(), soon()));
  ASSERT_EQ(::read(helper_pid->read_end.get(), &helper, sizeof helper),
            static_cast<ssize_t>(sizeof helper));
  EXPECT_FALSE(*fork_pipe_ended(pipe.get()));
  client.kill_and_wait();
  EXPECT_FALSE(*fork_pipe_ended(pipe.get()));
  ::kill(helper, SIGKILL);
  EXPECT_TRUE(ends_by(pipe.get(), soon()));
  EXPECT_TRUE(*fork_pipe_ended(pipe.get()));
}

TEST(ForkPipe, Exec_drops_it) {
  auto sockets = make_socket_pair();
  auto program_pid = make_pipe();
  ORLOP_ASSERT_OK(sockets);
  ORLOP_ASSERT_OK(program_pid);
  ForkedChild client([&] {
    if (send_own_pipe(sockets->second.get()) != 0) return 1;
    SpawnRequest request;
    request.path = "/bin/sleep";
    request.arguments = {"sleep", "1000"};
    auto program = spawn(request);
    if (!program) return 2;
    return ::write(program_pid->write_end.get(), &program->pid, sizeof program->pid) > 0
               ? sleep_until_killed()
               : 3;
  });
  const FileDescriptor pipe = receive_pipe(sockets->first.get());
  ASSERT_TRUE(pipe);
  pid_t program = 0;
  ASSERT_TRUE(*wait_readable(program_pid->read_end.get(), soon()));
  ASSERT_GT(::read(program_pid->read_end.get(), &program, sizeof program), 0);
  client.kill_and_wait();
  EXPECT_TRUE(ends_by(pipe.get(), soon()));  // although the program still runs
  EXPECT_EQ(::kill(program, SIGKILL), 0);
}

TEST(ForkPipe, Child_has_one_of_its_own) {
  auto sockets = make_socket_pair();
  ORLOP_ASSERT_OK(sockets);
  auto own = fork_pipe_read_end();
  ORLOP_ASSERT_OK(own);
  EXPECT_EQ(*fork_pipe_read_end(), *own);
  ForkedChild child(
      [&] { return send_own_pipe(sockets->second.get()) == 0 ? sleep_until_killed() : 1; });
  const FileDescriptor pipe = receive_pipe(sockets->first.get());
  ASSERT_TRUE(pipe);
  EXPECT_FALSE(*fork_pipe_ended(pipe.get()));
  // We, the parent, live: the child's pipe must not depend on that.
  child.kill_and_wait();
  EXPECT_TRUE(ends_by(pipe.get(), soon()));
  EXPECT_FALSE(*fork_pipe_ended(*own));
}

TEST(ForkPipe, Bytes_in_the_pipe_do_not_hide_the_end) {
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  ASSERT_EQ(::write(pipe->write_end.get(), "junk", 4), 4);
  EXPECT_FALSE(*fork_pipe_ended(pipe->read_end.get()));
  pipe->write_end.reset();
  EXPECT_TRUE(*fork_pipe_ended(pipe->read_end.get()));
}

TEST(ForkPipe, What_is_no_pipe_is_refused) {
  auto event = EventFd::create();
  EXPECT_EQ(fork_pipe_ended(event->fd()).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(fork_pipe_ended(-1).error().code, ErrorCode::kSystem);
}

// The service manager's store keeps an open file once.
TEST(ForkPipe, Sent_is_an_open_file_of_its_own_each_time) {
  const int shared = fork_pipe_read_end().value();
  const FileDescriptor first = fork_pipe_to_send().value();
  const FileDescriptor second = fork_pipe_to_send().value();
  EXPECT_FALSE(same_open_file(first.get(), shared));
  EXPECT_FALSE(same_open_file(first.get(), second.get()));
  struct stat of_shared{}, of_first{};
  ASSERT_EQ(::fstat(shared, &of_shared), 0);
  ASSERT_EQ(::fstat(first.get(), &of_first), 0);
  EXPECT_EQ(of_first.st_ino, of_shared.st_ino);
  EXPECT_FALSE(*fork_pipe_ended(first.get()));
}

}  // namespace
}  // namespace orlop
