// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "platform/clock.h"
#include "platform/event_fd.h"
#include "platform/poll_wait.h"
#include "platform/process.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

MonoNs soon() {
  return monotonic_ns() + 30 * kNsPerSecond;
}

SpawnRequest shell(const std::string& script) {
  SpawnRequest request;
  request.path = "/bin/sh";
  request.arguments = {"sh", "-c", script};
  return request;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  while (*wait_readable(fd, soon())) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

ExitStatus run_to_end(const SpawnRequest& request) {
  auto child = spawn(request);
  EXPECT_TRUE(child.has_value()) << child.error().message;
  if (!child) return {true, -1};
  auto status = reap_child(child->pidfd, soon());
  EXPECT_TRUE(status.has_value() && status->has_value());
  return status && *status ? **status : ExitStatus{true, -1};
}

// What the script writes to descriptor 1.
std::string output_of(SpawnRequest request) {
  auto pipe = make_pipe();
  EXPECT_TRUE(pipe.has_value());
  request.keep.push_back({pipe->write_end.get(), 1});
  auto child = spawn(request);
  EXPECT_TRUE(child.has_value()) << child.error().message;
  pipe->write_end.reset();
  std::string text = read_all(pipe->read_end.get());
  EXPECT_EQ(to_string(**reap_child(child->pidfd, soon())), "exit code 0");
  return text;
}

TEST(Spawn, Exit_code_comes_back) {
  EXPECT_EQ(run_to_end(shell("exit 5")).value, 5);
}

TEST(Spawn, Program_that_is_not_there_is_an_error_here) {
  SpawnRequest request;
  request.path = "/nowhere/program";
  request.arguments = {"program"};
  auto child = spawn(request);
  ASSERT_FALSE(child.has_value());
  EXPECT_NE(child.error().message.find("execve(/nowhere/program) failed"), std::string::npos);
  EXPECT_NE(child.error().message.find("ENOENT"), std::string::npos);
}

TEST(Spawn, Only_listed_descriptors_live_under_their_numbers) {
  // One that forgot close-on-exec, as third-party code does.
  FileDescriptor leaky(::open("/dev/null", O_RDONLY));
  FileDescriptor kept(::open("/etc/hostname", O_RDONLY | O_CLOEXEC));
  if (!kept) kept = FileDescriptor(::open("/proc/version", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(kept);
  SpawnRequest request = shell("for f in /proc/self/fd/*; do echo ${f##*/}; done | sort -n");
  request.keep = {{kept.get(), 7}, {kept.get(), 9}};
  // The shell itself opens what it needs from 3 up (the folder), so look at what must not be there.
  const std::string numbers = output_of(request);
  EXPECT_NE(numbers.find("\n7\n"), std::string::npos) << numbers;
  EXPECT_NE(numbers.find("\n9\n"), std::string::npos) << numbers;
  SpawnRequest look = shell("test ! -e /proc/self/fd/" + std::to_string(leaky.get()));
  // Far above what the shell may open for itself.
  FileDescriptor high(::fcntl(leaky.get(), F_DUPFD, 200));
  look = shell("test ! -e /proc/$$/fd/" + std::to_string(high.get()));
  EXPECT_EQ(run_to_end(look).value, 0);
}

TEST(Spawn, Descriptors_that_swap_numbers_arrive_right) {
  auto first = make_pipe();
  auto second = make_pipe();
  ORLOP_ASSERT_OK(first);
  ORLOP_ASSERT_OK(second);
  const int a = first->write_end.get();
  const int b = second->write_end.get();
  // Through /proc, because shells redirect to single-digit descriptors only.
  SpawnRequest request = shell("echo for-first > /proc/self/fd/" + std::to_string(b) +
                               "; echo for-second > /proc/self/fd/" + std::to_string(a));
  request.keep = {{a, b}, {b, a}};
  EXPECT_EQ(run_to_end(request).value, 0);
  first->write_end.reset();
  second->write_end.reset();
  EXPECT_EQ(read_all(first->read_end.get()), "for-first\n");
  EXPECT_EQ(read_all(second->read_end.get()), "for-second\n");
}

TEST(Spawn, Environment_is_exactly_the_one_given) {
  SpawnRequest request;
  request.path = "/usr/bin/env";
  request.arguments = {"env"};
  request.environment = {{"ONE=1", "TWO=2"}};
  EXPECT_EQ(output_of(request), "ONE=1\nTWO=2\n");
}

TEST(Spawn, Child_starts_without_blocked_signals) {
  sigset_t usr1;
  sigset_t before;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &usr1, &before);
  const ExitStatus status = run_to_end(shell("kill -USR1 $$; exit 0"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(to_string(status), "signal 10 (SIGUSR1)");
}

TEST(Spawn, Parent_death_signal_reaches_the_program) {
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  ForkedChild parent([&] {
    SpawnRequest request = shell("echo up; exec sleep 1000");
    request.keep = {{pipe->write_end.get(), 1}};
    request.parent_death_signal = SIGKILL;
    auto child = spawn(request);
    pipe->write_end.reset();
    return child ? sleep_until_killed() : 1;
  });
  pipe->write_end.reset();
  ASSERT_TRUE(*wait_readable(pipe->read_end.get(), soon()));
  char text[8];
  ASSERT_EQ(::read(pipe->read_end.get(), text, 3), 3);
  parent.kill_and_wait();
  EXPECT_EQ(read_all(pipe->read_end.get()), "");  // ends only because the program was killed
}

TEST(Spawn, Bad_descriptor_lists_are_refused_by_index) {
  SpawnRequest request = shell("exit 0");
  request.keep = {{0, 5}, {9999, 6}};
  EXPECT_NE(spawn(request).error().message.find("keep[1]"), std::string::npos);
  request.keep = {{0, 5}, {0, 5}};
  EXPECT_NE(spawn(request).error().message.find("given twice"), std::string::npos);
  request.keep = {{0, kMaxKeptNumber}};
  EXPECT_EQ(spawn(request).error().code, ErrorCode::kInvalidArgument);
}

TEST(Spawn, Failed_spawns_leak_no_descriptor) {
  const auto open_now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = open_now();
  SpawnRequest request;
  request.path = "/nowhere";
  request.arguments = {"x"};
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(spawn(request).has_value());
  EXPECT_EQ(open_now(), before);
}

}  // namespace
}  // namespace orlop
