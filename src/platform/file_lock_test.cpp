// SPDX-License-Identifier: Apache-2.0
#include "platform/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "platform/clock.h"
#include "platform/poll_wait.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

TEST(FileLock, Second_owner_is_refused_and_told_the_first_ones_pid) {
  TestFolder folder;
  auto first = FileLock::acquire(folder / "s");
  ORLOP_ASSERT_OK(first);
  EXPECT_TRUE(first->held());
  EXPECT_EQ(first->path(), folder / "s.lock");
  EXPECT_EQ(::fcntl(first->fd(), F_GETFD), FD_CLOEXEC);
  auto second = FileLock::acquire(folder / "s");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kAddressInUse);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid()) + ")"),
            std::string::npos)
      << second.error().message;
}

TEST(FileLock, Killed_owner_leaves_it_free) {
  TestFolder folder;
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  ForkedChild owner([&] {
    auto lock = FileLock::acquire(folder / "s");
    return lock && ::write(pipe->write_end.get(), "x", 1) == 1 ? sleep_until_killed() : 1;
  });
  ASSERT_TRUE(*wait_readable(pipe->read_end.get(), kNever));
  auto refused = FileLock::acquire(folder / "s");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find(std::to_string(owner.pid())), std::string::npos);
  owner.kill_and_wait();
  ORLOP_EXPECT_OK(FileLock::acquire(folder / "s"));
}

TEST(FileLock, Released_lock_can_be_taken_again) {
  TestFolder folder;
  for (int i = 0; i < 3; ++i) ORLOP_EXPECT_OK(FileLock::acquire(folder / "s"));
}

TEST(FileLock, Missing_folder_and_symbolic_link_are_refused) {
  TestFolder folder;
  auto missing = FileLock::acquire(folder / "no/s");
  EXPECT_EQ(missing.error().code, ErrorCode::kSystem);
  std::filesystem::create_symlink("/dev/null", folder / "s.lock");
  EXPECT_EQ(FileLock::acquire(folder / "s").error().code, ErrorCode::kRefused);
}

}  // namespace
}  // namespace orlop
