// SPDX-License-Identifier: Apache-2.0
// The C calls from several threads, on a node inside this process: what the sanitizers look at.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "c_api/node_fixture.h"

namespace orlop::c_api {
namespace {

using testing::Batch;
using testing::kBatch;
using testing::kPatienceMs;

class CThreads : public testing::OnNode {};

TEST_F(CThreads, Share_one_client) {
  constexpr int kThreads = 4, kRounds = 30;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        if (!put(t, round) || !read(t, round, true)) wrong.fetch_add(1);
        if (!read((t + 1) % kThreads, round, false)) wrong.fetch_add(1);
        // The text of an error is that of the thread's own call.
        if (orlop_copy_done(client_, static_cast<std::uint64_t>(t) + 1'000, 1) == ORLOP_OK ||
            orlop_ping(nullptr) != ORLOP_INVALID_ARGUMENT)
          wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  orlop_client_stats stats{};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(orlop_stats(client_, &stats), ORLOP_OK);
  EXPECT_EQ(stats.keys_stored, kThreads * kRounds * kBatch);
  EXPECT_EQ(stats.open_put_plans + stats.open_read_plans + stats.open_handles, 0U);
}

TEST_F(CThreads, Future_is_waited_for_by_several) {
  const Batch batch(9, 0);
  orlop_put_plan* plan = nullptr;
  orlop_future* future = nullptr;
  ASSERT_EQ(orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan), ORLOP_OK);
  ASSERT_EQ(orlop_put_commit(client_, plan, &future), ORLOP_OK);
  std::atomic<int> stored{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::array<orlop_outcome, kBatch> outcomes{};
      if (orlop_future_wait(future, kPatienceMs, outcomes.data(), outcomes.size()) == ORLOP_OK)
        stored.fetch_add(outcomes[0] == ORLOP_OUTCOME_STORED ? 1 : 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stored.load(), 3);
  orlop_future_free(future);
  orlop_put_plan_free(plan);
}

// Closing under the calls of others: they answer, whatever it is, and nothing hangs.
TEST_F(CThreads, Close_meets_calls_of_others) {
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; !stop.load(); ++round) {
        put(t, round % 50);
        read(t, round % 50, false);
        rounds.fetch_add(1);
      }
    });
  }
  while (rounds.load() < 10) std::this_thread::yield();
  EXPECT_EQ(orlop_close(client_), ORLOP_OK);
  const int at_close = rounds.load();
  while (rounds.load() < at_close + 10) std::this_thread::yield();
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(orlop_ping(client_), ORLOP_CLOSED);
}

}  // namespace
}  // namespace orlop::c_api
