// SPDX-License-Identifier: Apache-2.0
#include "platform/event_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "platform/clock.h"
#include "platform/poll_wait.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

TEST(EventFd, Rings_add_up_until_drained) {
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  EXPECT_FALSE(bell->drain());
  EXPECT_FALSE(*bell->wait(0));
  bell->ring();
  bell->ring();
  EXPECT_TRUE(*bell->wait(kNever));
  EXPECT_TRUE(*bell->wait(0));  // waiting does not drain
  EXPECT_TRUE(bell->drain());
  EXPECT_FALSE(bell->drain());
}

TEST(EventFd, Full_counter_neither_blocks_nor_fails) {
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  const std::uint64_t most = ~std::uint64_t{0} - 1;
  ASSERT_EQ(::write(bell->fd(), &most, sizeof most), static_cast<ssize_t>(sizeof most));
  bell->ring();
  EXPECT_TRUE(bell->drain());
}

TEST(EventFd, Wait_ends_at_its_deadline) {
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  const MonoNs deadline = monotonic_ns() + 2 * kNsPerMs;
  EXPECT_FALSE(*bell->wait(deadline));
  EXPECT_GE(monotonic_ns(), deadline);
}

TEST(EventFd, Another_process_wakes_the_sleeper) {
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  ForkedChild ringer([&] {
    bell->ring();
    return 0;
  });
  EXPECT_TRUE(*bell->wait(kNever));
  EXPECT_EQ(ringer.wait(), 0);
}

TEST(EventFd, Adopt_takes_only_eventfds_and_makes_them_non_blocking) {
  auto bell = EventFd::create();
  ORLOP_ASSERT_OK(bell);
  ASSERT_EQ(::fcntl(bell->fd(), F_SETFL, 0), 0);
  auto adopted = EventFd::adopt(std::move(*bell->descriptor().duplicate()));
  ORLOP_ASSERT_OK(adopted);
  EXPECT_FALSE(adopted->drain());
  bell->ring();
  EXPECT_TRUE(adopted->drain());
  EXPECT_EQ(EventFd::adopt(FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))).error().code,
            ErrorCode::kCorrupt);
}

TEST(PollWait, Closed_descriptor_is_an_error) {
  EXPECT_EQ(wait_readable(-1, 0).value_or(true), false);  // negative: ignored by the kernel
  auto pipe = make_pipe();
  const int number = pipe->read_end.get();
  pipe->read_end.reset();
  EXPECT_FALSE(wait_readable(number, 0).has_value());
}

TEST(PollWait, Hang_up_counts_as_readable) {
  auto pipe = make_pipe();
  ORLOP_ASSERT_OK(pipe);
  EXPECT_FALSE(*wait_readable(pipe->read_end.get(), 0));
  EXPECT_TRUE(*wait_writable(pipe->write_end.get(), 0));
  pipe->write_end.reset();
  EXPECT_TRUE(*wait_readable(pipe->read_end.get(), kNever));
}

}  // namespace
}  // namespace orlop
