// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_syscalls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/clock.h"

namespace orlop::cli {
namespace {

TEST(SystemCalls, Are_seen_carried_out_and_not_imagined) {
  pid_t parent = 0;
  const auto one = makes_system_calls([&parent] { parent = ::getppid(); });
  if (!one && one.error().code == ErrorCode::kRefused) GTEST_SKIP() << one.error().message;
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_TRUE(*one);
  EXPECT_EQ(parent, ::getppid());
  volatile int sum = 0;
  const auto none = makes_system_calls([&sum] {
    for (int i = 0; i < 100; ++i) sum = sum + i;
  });
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_TRUE(makes_system_calls([] { (void)::getppid(); }).value());
}

}  // namespace
}  // namespace orlop::cli
