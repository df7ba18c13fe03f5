// SPDX-License-Identifier: Apache-2.0
#include "gpu/copier_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <new>
#include <string>

#include "gpu/failing_allocations.h"

namespace orlop::gpu {
namespace {

bool is_blocked(int signal) {
  sigset_t mask;
  EXPECT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  return sigismember(&mask, signal) == 1;
}

TEST(CopierThread, Is_born_with_signals_blocked_and_leaves_those_of_its_maker) {
  ASSERT_FALSE(is_blocked(SIGTERM));
  bool term = false, user = false;
  auto thread = start_copier_thread("orlop-test", [&] {
    term = is_blocked(SIGTERM);
    user = is_blocked(SIGUSR1);
  });
  ASSERT_TRUE(thread.has_value());
  thread->join();
  EXPECT_TRUE(term);
  EXPECT_TRUE(user);
  EXPECT_FALSE(is_blocked(SIGTERM));
}

// The caller goes on without the thread, but not without its signals.
TEST(CopierThread, That_finds_no_memory_leaves_the_signals_of_its_maker) {
  if (!testing::FailingAllocation::kWorks) GTEST_SKIP() << "allocations cannot be made to fail";
  bool failed = false;
  try {
    const testing::FailingAllocation fails(0);
    auto thread = start_copier_thread("orlop-test", [] {});
    if (thread) thread->join();
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  EXPECT_TRUE(failed);
  EXPECT_FALSE(is_blocked(SIGTERM));
}

}  // namespace
}  // namespace orlop::gpu
