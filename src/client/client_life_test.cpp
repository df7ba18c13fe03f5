// SPDX-License-Identifier: Apache-2.0
// liborlop while its node comes, goes and comes back; close; fork; threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "client/client_fixture.h"

namespace orlop::client::testing {
namespace {

class LateNodeTest : public ClientTest {
 protected:
  LateNodeTest() : ClientTest({.start = false}, {.call_budget = Milliseconds{50}}) {}
};

TEST_F(LateNodeTest, Client_before_its_node_misses_and_answers_no_node) {
  EXPECT_FALSE(client.ready());
  open();
  EXPECT_FALSE(ns.resolved());
  auto handle = client.get_start(ns, Keys(2));
  EXPECT_EQ(handle->result().reason, MissReason::kNotAttached);
  auto plan = client.put_start(ns, Keys(2));
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->outcome(1), Outcome::kNoNode);
  EXPECT_FALSE(plan->explanation().empty());
  EXPECT_EQ(client.put_commit(*plan)->wait(Milliseconds{0})->front(), Outcome::kNoNode);
  EXPECT_EQ(client.exists(ns, Keys(2))->prefix_len, 0U);
  EXPECT_EQ(client.flush(ns).error().code, ErrorCode::kNoNode);
  EXPECT_EQ(client.remove(ns, Keys(1)).error().code, ErrorCode::kNoNode);
  EXPECT_EQ(client.ping().error().code, ErrorCode::kNoNode);

  node.start_server();
  ASSERT_TRUE(client.wait_ready(kLong));
  EXPECT_TRUE(eventually([&] { return ns.resolved(); }));
  EXPECT_TRUE(eventually([&] { return put(Keys(2)).front() == Outcome::kStored; }));
}

TEST_F(ClientTest, Reads_go_on_while_no_server_lives) {
  const Keys keys(10);
  put(keys);
  node.stop_server();
  ReadPlan plan = read(keys);
  ASSERT_EQ(plan.size(), 10U);
  EXPECT_TRUE(holds_page(plan, 9, keys[9]));
  node.start_server();
  EXPECT_TRUE(eventually([&] { return client.stats().resumes == 1; }));
  EXPECT_TRUE(holds_page(plan, 3, keys[3]));
  EXPECT_EQ(read(keys).size(), 10U);
}

TEST_F(ClientTest, Commit_made_while_no_server_lives_is_stored_after_its_return) {
  const Keys keys(3);
  auto plan = client.put_start(ns, keys);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(plan->copy_in(i, page_of(keys[i])).has_value());
  node.stop_server();
  const auto future = client.put_commit(*plan);
  ASSERT_TRUE(future.has_value());
  EXPECT_FALSE(future->wait(Milliseconds{1}).has_value());
  node.start_server();
  const auto outcomes = future->wait(kLong);
  ASSERT_TRUE(outcomes.has_value());
  EXPECT_EQ(*outcomes, std::vector<Outcome>(3, Outcome::kStored));
}

TEST_F(ClientTest, Open_put_survives_a_restart) {
  const Keys keys(2);
  auto plan = client.put_start(ns, keys);
  node.restart_server();
  ASSERT_TRUE(eventually([&] { return client.stats().resumes == 1; }));
  for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(plan->copy_in(i, page_of(keys[i])).has_value());
  EXPECT_EQ(*client.put_commit(*plan)->wait(kLong), std::vector<Outcome>(2, Outcome::kStored));
}

TEST_F(ClientTest, Abort_while_no_server_lives_frees_the_key) {
  auto plan = client.put_start(ns, Keys(1));
  node.stop_server();
  EXPECT_TRUE(client.put_abort(*plan).has_value());
  node.start_server();
  EXPECT_EQ(put(Keys(1)).front(), Outcome::kStored);
}

TEST_F(ClientTest, Put_waits_for_a_server_that_is_restarted) {
  node.stop_server();
  std::thread back([this] { node.start_server(); });
  EXPECT_EQ(put(Keys(1)).front(), Outcome::kStored);
  back.join();
}

TEST_F(ClientTest, New_keeper_leaves_old_plans_valid_and_puts_unstored) {
  const Keys keys(2);
  put(keys);
  ReadPlan old = read(keys);
  const std::uint64_t segment = client.segment_id();
  auto writing = client.put_start(ns, Keys(1, "w"));
  auto committed = client.put_start(ns, Keys(1, "c"));
  node.stop_server();
  const auto future = client.put_commit(*committed);
  node.replace_keeper();
  node.start_server();
  EXPECT_EQ(future->wait(kLong)->front(), Outcome::kNoNode);
  EXPECT_TRUE(eventually([&] { return client.segment_id() != segment && client.ready(); }));
  EXPECT_TRUE(holds_page(old, 1, keys[1]));
  EXPECT_TRUE(writing->copy_in(0, page_of("w0")).has_value());
  EXPECT_EQ(client.put_commit(*writing)->wait(kLong)->front(), Outcome::kNoNode);
  EXPECT_TRUE(client.release_views(old).has_value());
  EXPECT_EQ(read(keys).size(), 0U);
  EXPECT_EQ(put(keys), std::vector<Outcome>(2, Outcome::kStored));
  ReadPlan fresh = read(keys);
  EXPECT_TRUE(holds_page(fresh, 0, keys[0]));
}

TEST_F(ClientTest, Ready_is_told) {
  std::atomic<int> came{0}, went{0};
  ClientOptions options = with_socket({});
  options.on_ready = [&](bool ready) { ++(ready ? came : went); };
  Client other(options);
  EXPECT_TRUE(eventually([&] { return came == 1; }));
  node.restart_server();
  EXPECT_TRUE(eventually([&] { return came == 2; }));
  EXPECT_EQ(went, 1);
}

TEST_F(ClientTest, Close_ends_everything_and_the_node_lets_go) {
  put(Keys(2));
  ReadPlan plan = read(Keys(2));
  auto handle = client.get_start(ns, Keys(2));
  auto writing = client.put_start(ns, Keys(1, "w"));
  auto committed = client.put_start(ns, Keys(1, "c"));
  const auto future = client.put_commit(*committed);
  EXPECT_EQ(node.channels_held(), 1U);
  client.close();
  client.close();
  EXPECT_EQ(future->wait(Milliseconds{0})->front(), Outcome::kStored);
  EXPECT_TRUE(plan.view(0).empty());
  EXPECT_EQ(plan.size(), 0U);
  EXPECT_EQ(client.get_transfer(*handle).error().code, ErrorCode::kClosed);
  EXPECT_EQ(writing->copy_in(0, page_of("w0")).error().code, ErrorCode::kClosed);
  EXPECT_EQ(client.put_commit(*writing).error().code, ErrorCode::kClosed);
  EXPECT_EQ(client.put_start(ns, Keys(1)).error().code, ErrorCode::kClosed);
  EXPECT_EQ(client.get_start(ns, Keys(1)).error().code, ErrorCode::kClosed);
  EXPECT_EQ(client.exists(ns, Keys(1)).error().code, ErrorCode::kClosed);
  EXPECT_EQ(client.open_namespace(descriptor()).error().code, ErrorCode::kClosed);
  EXPECT_FALSE(client.ready());
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 0; }));
}

TEST_F(ClientTest, Close_under_a_copy_keeps_the_channel_for_the_proof_of_death) {
  put(Keys(1));
  ReadPlan plan = read(Keys(1));
  const auto copy = plan.register_copy();
  client.close();
  EXPECT_EQ(node.channels_held(), 1U);
  EXPECT_TRUE(client.copy_done(*copy, true).has_value());
}

// What a forked child does with the parent's objects; its exit status says which step failed.
int use_in_child(Client& client, const Namespace& ns, PutPlan& writing, ReadPlan& reading,
                 GetHandle& handle, const Future& future) {
  std::vector<std::byte> page(kValueLen);
  const Keys keys(1);
  const auto forked = [](const auto& result) {
    return !result.has_value() && result.error().code == ErrorCode::kForkedChild;
  };
  if (!forked(client.get_start(ns, keys))) return 1;
  if (!forked(client.put_start(ns, keys))) return 2;
  if (!forked(client.put_commit(writing))) return 3;
  if (!forked(client.put_abort(writing))) return 4;
  if (!forked(client.get_transfer(handle))) return 5;
  if (!forked(client.cancel_get(handle))) return 6;
  if (!forked(client.release_views(reading))) return 7;
  if (!forked(writing.copy_in(0, page))) return 8;
  if (!forked(reading.copy_out(0, page))) return 9;
  if (!reading.view(0).empty() || reading.size() != 0 || !writing.memory(0).empty()) return 10;
  if (future.ready() || future.wait(Milliseconds{0})) return 11;
  if (!forked(client.exists(ns, keys)) || !forked(client.remove(ns, keys))) return 12;
  if (!forked(client.flush(ns)) || !forked(client.ping())) return 13;
  if (!forked(client.open_namespace(descriptor()))) return 14;
  if (client.ready() || client.segment_id() != 0) return 15;
  client.close();
  {
    ReadPlan gone = std::move(reading);
  }
  {
    GetHandle gone = std::move(handle);
  }
  {
    PutPlan gone = std::move(writing);
  }
  {
    Client gone = std::move(client);
  }
  return 0;
}

TEST_F(ClientTest, Forked_child_can_do_nothing_with_the_parents_objects) {
  put(Keys(2));
  ReadPlan reading = read(Keys(2));
  auto handle = client.get_start(ns, Keys(2));
  auto writing = client.put_start(ns, Keys(1, "w"));
  auto committed = client.put_start(ns, Keys(1, "c"));
  const auto future = client.put_commit(*committed);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(use_in_child(client, ns, *writing, reading, *handle, *future));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // And the parent has lost nothing.
  EXPECT_TRUE(holds_page(reading, 0, "k0"));
  EXPECT_EQ(client.stats().pinned_bytes, 4U * kValueLen);
  EXPECT_TRUE(writing->copy_in(0, page_of("w0")).has_value());
  EXPECT_EQ(client.put_commit(*writing)->wait(kLong)->front(), Outcome::kStored);
}

TEST_F(ClientTest, Objects_of_a_moved_client_stay_usable) {
  put(Keys(1));
  ReadPlan plan = read(Keys(1));
  Client moved(std::move(client));
  EXPECT_EQ(client.ping().error().code, ErrorCode::kWrongState);  // NOLINT: that is the question
  EXPECT_TRUE(moved.release_views(plan).has_value());
  client = std::move(moved);
  EXPECT_TRUE(client.ping().has_value());
}

TEST_F(ClientTest, Many_threads_get_and_put) {
  constexpr int kThreads = 4, kRounds = 60;
  std::atomic<std::uint64_t> wrong{0}, hits{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const Keys keys(8, "t" + std::to_string((t + round) % 3) + "-", (round % 10) * 8);
        put(keys);
        auto handle = client.get_start(ns, keys);
        if (round % 7 == 0) continue;  // dropped
        auto plan = client.get_transfer(*handle);
        for (std::size_t i = 0; i < plan->size(); ++i) {
          ++hits;
          if (!holds_page(*plan, i, keys[i])) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(hits, 0U);
  const ClientStats stats = client.stats();
  EXPECT_EQ(stats.pinned_bytes, 0U);
  EXPECT_EQ(stats.open_read_plans + stats.open_put_plans + stats.open_handles, 0U);
}

TEST_F(ClientTest, Threads_go_on_through_restarts) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0}, rounds{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t round = 0; !stop; ++round, ++rounds) {
        const Keys keys(4, "r" + std::to_string(t) + "-", round % 50 * 4);
        put(keys);
        ReadPlan plan = read(keys);
        for (std::size_t i = 0; i < plan.size(); ++i)
          if (!holds_page(plan, i, keys[i])) ++wrong;
      }
    });
  }
  for (std::uint64_t restart = 1; restart <= 5; ++restart) {
    const std::uint64_t before = rounds;
    EXPECT_TRUE(eventually([&] { return rounds > before + 20; }));
    node.restart_server();
    EXPECT_TRUE(eventually([&] { return client.stats().resumes == restart; }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(client.stats().pinned_bytes, 0U);
}

TEST_F(ClientTest, Plan_outlives_the_thread_that_made_it) {
  put(Keys(3));
  std::optional<ReadPlan> plan;
  std::thread([&] { plan.emplace(read(Keys(3))); }).join();
  EXPECT_TRUE(holds_page(*plan, 2, "k2"));
  EXPECT_EQ(client.stats().pinned_bytes, 3U * kValueLen);
  plan.reset();
  EXPECT_EQ(client.stats().pinned_bytes, 0U);
}

}  // namespace
}  // namespace orlop::client::testing
