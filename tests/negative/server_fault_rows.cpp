// SPDX-License-Identifier: Apache-2.0
// Servers that are killed or stopped, at any point.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "platform/clock.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::eventually;

pid_t server_of(World& world) {
  return static_cast<pid_t>(world.daemon().status().server_pid);
}

struct Tally {
  std::atomic<std::uint64_t> rounds{0}, stored{0}, lost{0}, wrong{0};
  std::atomic<bool> stop{false};
};

constexpr std::size_t kPages = 4, kKeySets = 300;  // far below the capacity: nothing is evicted

std::string set_name(int thread, std::size_t set) {
  return "s" + std::to_string(thread) + "-" + std::to_string(set) + "-";
}

// What was answered "stored" or "exists" is there, now and with the right bytes, whatever happens.
void put_and_get(Worker& worker, int thread, Tally& tally) {
  std::vector<bool> stored(kKeySets);
  for (std::size_t round = 0; !tally.stop.load(); ++round, ++tally.rounds) {
    const std::size_t set = round % kKeySets;
    const Keys keys(kPages, set_name(thread, set));
    for (const Outcome outcome : worker.put(keys)) {
      if (outcome != Outcome::kStored && outcome != Outcome::kExists) continue;
      ++tally.stored;
      stored[set] = true;
    }
    const Got got = worker.get(keys);
    tally.wrong += got.wrong;
    if (stored[set] && got.pages != kPages) ++tally.lost;
    // An old one as well.
    const std::size_t old = round / 2 % kKeySets;
    if (!stored[old]) continue;
    const Got again = worker.get(Keys(kPages, set_name(thread, old)));
    tally.wrong += again.wrong;
    if (again.pages != kPages) ++tally.lost;
  }
}

Result<void> killed_under_load(World& world) {
  Tally tally;
  Worker second(Worker::options(world.socket(), "second"));
  std::vector<std::thread> threads;
  threads.emplace_back([&] { put_and_get(world.worker(), 0, tally); });
  threads.emplace_back([&] { put_and_get(second, 1, tally); });
  for (std::uint32_t kill = 1; kill <= 6; ++kill) {
    // Another number of rounds each time: the point of the kill is wherever they are then.
    const std::uint64_t until = tally.rounds.load() + 7 * kill;
    EXPECT_TRUE(eventually([&] { return tally.rounds.load() >= until; }));
    world.daemon().kill_server();
    EXPECT_TRUE(world.daemon().wait_serving(kill)) << world.daemon().log();
    EXPECT_TRUE(eventually([&] {
      return world.worker().client.stats().resumes >= kill && second.client.stats().resumes >= kill;
    }));
  }
  tally.stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(tally.stored.load(), 0U);
  EXPECT_EQ(tally.lost.load(), 0U);
  EXPECT_EQ(tally.wrong.load(), 0U);
  EXPECT_EQ(world.daemon().metric("orlop_server_restarts_total"), 6);
  return {};
}

// At each step of a put and of a get, and nothing between the step and the kill.
Result<void> killed_between_the_steps(World& world) {
  Worker& worker = world.worker();
  auto kill = [&world, restarts = std::uint32_t{0}]() mutable {
    world.daemon().kill_server();
    EXPECT_TRUE(world.daemon().wait_serving(++restarts)) << world.daemon().log();
  };
  const Keys keys(4, "steps");
  auto plan = worker.client.put_start(worker.ns, keys);
  kill();
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_TRUE(plan->copy_in(i, page_of(keys[i])));
  const auto future = worker.client.put_commit(*plan);
  kill();
  EXPECT_TRUE(all_are(future->wait(kPatience).value_or(std::vector<Outcome>{}), Outcome::kStored));
  auto handle = worker.client.get_start(worker.ns, keys);
  kill();
  auto reading = worker.client.get_transfer(*handle);
  EXPECT_EQ(reading->size(), 4U);
  kill();
  EXPECT_EQ(Worker::wrong_pages(*reading, keys), 0U);
  EXPECT_TRUE(worker.client.release_views(*reading));
  auto aborted = worker.client.put_start(worker.ns, Keys(2, "aborted"));
  EXPECT_TRUE(worker.client.put_abort(*aborted));
  kill();
  EXPECT_TRUE(eventually([&] { return worker.client.ready(); }));
  world.expect_readable(keys);
  return {};
}

// Alive and silent: hits go on, everything else ends in time and says so.
Result<void> stopped(World& world) {
  constexpr Milliseconds kBudget{200};
  Worker worker(Worker::options(world.socket(), "hasty", kBudget));
  const Keys keys(8, "frozen");
  EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  const Keys late(2, "late");
  auto plan = worker.client.put_start(worker.ns, late, {.deadline = kPatience});
  EXPECT_EQ(plan->prepared(), 2U);
  // Of its own: a flush that was answered kNoNode may still be carried out later.
  const auto other = worker.client.open_namespace(descriptor(kValueLen, "other"));
  const pid_t server = server_of(world);
  ::kill(server, SIGSTOP);

  const MonoNs begun = monotonic_ns();
  for (int i = 0; i < 100; ++i) {
    const Got got = worker.get(keys);
    EXPECT_EQ(got.pages, 8U);
    EXPECT_EQ(got.wrong, 0U);
  }
  const auto outcomes = worker.put(Keys(2, "never"));
  EXPECT_TRUE(all_are(outcomes, Outcome::kNoNode));
  auto refused = worker.client.put_start(worker.ns, Keys(2, "never"));
  EXPECT_EQ(refused->outcome(1), Outcome::kNoNode);
  EXPECT_NE(refused->explanation().find(world.socket()), std::string_view::npos);
  for (const auto& error : {error_of(worker.client.flush(*other)),
                            error_of(worker.client.remove(*other, keys)), worker.client.ping()})
    EXPECT_EQ(error.error().code, ErrorCode::kNoNode) << error.error().message;
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(plan->copy_in(i, page_of(late[i])));
  const auto future = worker.client.put_commit(*plan);
  EXPECT_FALSE(future->wait(kBudget).has_value());
  // Six calls of 200 ms each; the rest is the machine's load.
  EXPECT_LT(monotonic_ns() - begun, 12 * kNsPerSecond);

  ::kill(server, SIGCONT);
  const auto committed = future->wait(kPatience);
  EXPECT_TRUE(committed && all_are(*committed, Outcome::kStored))
      << (committed ? to_string((*committed)[0]) : "not answered");
  EXPECT_TRUE(eventually([&] { return worker.client.ping().has_value(); }, 10));
  EXPECT_TRUE(eventually(
      [&] {
        return all_are(worker.put(Keys(2, "again")), Outcome::kStored) ||
               all_are(worker.put(Keys(2, "again")), Outcome::kExists);
      },
      10));
  EXPECT_EQ(world.daemon().status().restarts, 0U);
  return {};
}

// Stopped, then killed: the keeper's next server takes over, nothing is lost.
Result<void> stopped_and_killed(World& world) {
  const Keys keys(8, "frozen");
  EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  ::kill(server_of(world), SIGSTOP);
  world.expect_readable(keys);
  world.daemon().kill_server();
  EXPECT_TRUE(world.daemon().wait_serving(1)) << world.daemon().log();
  EXPECT_TRUE(eventually([&] { return world.worker().client.stats().resumes == 1; }));
  world.expect_readable(keys);
  return {};
}

WorldOptions restarting() {
  return {{"--restart-backoff", "1ms", "--restart-backoff-most", "1ms"}};
}

}  // namespace

Rows server_fault_rows() {
  using enum Item;
  return {
      {kServerKilled, "killed_under_load", {}, {}, killed_under_load, restarting()},
      {kServerKilled, "killed_between_the_steps", {}, {}, killed_between_the_steps, restarting()},
      {kServerStopped, "stopped", {}, {}, stopped, restarting()},
      {kServerStopped, "stopped_and_killed", {}, {}, stopped_and_killed, restarting()},
  };
}

}  // namespace orlop::negative_test
