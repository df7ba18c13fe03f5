// SPDX-License-Identifier: Apache-2.0
// Many clients at once, and a client that forks as fast as it can.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "child_process.h"
#include "resources.h"
#include "world.h"

namespace orlop::limits_test {
namespace {

using namespace negative_test;
using process_test::eventually;

constexpr int kClients = 64;
constexpr int kKilledOneIn = 4;
// All of them together fill a part of the node: nothing is evicted.
constexpr std::size_t kRoundsWithPut = 8;
constexpr int kForks = 200;

Key first_of(const Keys& keys) {
  return static_cast<std::span<const Key>>(keys)[0];
}

// A life of a client; its exit status says at which step it was not as it must be.
int whole_life(const std::string& socket, int number, Board& board) {
  Worker me(Worker::options(socket, "client" + std::to_string(number)));
  if (!me.usable()) return 1;
  for (std::size_t round = 0; board.go.load() == 0; ++round) {
    const Keys keys(4, "c" + std::to_string(number) + "-", 4 * (round % kRoundsWithPut));
    if (round < kRoundsWithPut && !all_are(me.put(keys), Outcome::kStored)) return 2;
    const Got got = me.get(keys);
    if (got.wrong != 0) return 3;
    if (got.pages != 4) return 4;
    board.rounds.fetch_add(1);
  }
  me.client.close();
  return 0;
}

TEST(ManyClients, Sixty_four_at_once_some_killed_leave_nothing_behind) {
  World world;
  ASSERT_TRUE(world.ok());
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<ChildProcess>(
        [&world, i](Board& board) { return whole_life(world.socket(), i, board); }));
  }
  const auto all_have = [&](std::uint64_t rounds) {
    return std::ranges::all_of(
        clients, [&](const auto& one) { return one->board().rounds.load() >= rounds; });
  };
  // While all of them are attached and at work, wherever each of those is.
  ASSERT_TRUE(eventually([&] { return all_have(1); }, 120));
  EXPECT_EQ(world.daemon().metric("orlop_clients_attached"), kClients + 1);
  for (int i = 0; i < kClients; i += kKilledOneIn) clients[static_cast<std::size_t>(i)]->kill();
  for (int i = 0; i < kClients; ++i) {
    ChildProcess& client = *clients[static_cast<std::size_t>(i)];
    if (i % kKilledOneIn == 0) continue;
    client.board().go.store(1);
    EXPECT_EQ(client.wait_exit(), 0) << "client " << i;
  }
  world.expect_sound();
  // What those who were killed had been answered for is there.
  for (int i = 0; i < kClients; i += kKilledOneIn)
    world.expect_readable(Keys(4, "c" + std::to_string(i) + "-"));
}

TEST(ManyClients, The_node_says_when_it_takes_no_more_and_takes_the_next_when_one_goes) {
  World world;
  ASSERT_TRUE(world.ok());
  std::vector<std::unique_ptr<Client>> clients;
  while (clients.size() < 300) {
    clients.push_back(std::make_unique<Client>(
        ClientOptions{.socket = world.socket(), .name = "crowd", .ledger_cells = 64}));
    const Client& last = *clients.back();
    ASSERT_TRUE(eventually([&] { return last.ready() || tried(last); }));
    if (last.ready()) continue;
    EXPECT_EQ(last.last_attach_error().code, ErrorCode::kLimit);
    EXPECT_NE(last.last_attach_error().message.find("256"), std::string::npos)
        << last.last_attach_error().message;
    break;
  }
  ASSERT_LT(clients.size(), 300U);
  EXPECT_EQ(world.daemon().metric("orlop_clients_attached"), 256);
  clients.front()->close();
  EXPECT_TRUE(clients.back()->wait_ready(kPatience)) << clients.back()->last_attach_error().message;
  clients.clear();
  world.expect_sound();
}

// ---- forks ----

// In a child of the client: everything of the parent says so, and nothing of it is touched.
bool all_answer_forked_child(Worker& me, PutPlan& put, ReadPlan& read, const Keys& keys) {
  const auto forked = [](const auto& result) {
    return !result && result.error().code == ErrorCode::kForkedChild;
  };
  std::vector<std::byte> value(kValueLen);
  return forked(me.client.ping()) && forked(me.client.get_start(me.ns, keys)) &&
         forked(me.client.put_start(me.ns, keys)) && forked(me.client.exists(me.ns, keys)) &&
         forked(put.copy_in(0, page_of(first_of(keys)))) && forked(read.copy_out(0, value)) &&
         read.view(0).empty() && put.memory(0).empty();
}

[[noreturn]] void end_of_child(int number, bool refused) {
  if (!refused) ::_exit(1);
  if (number % 3 == 1) ::execl("/bin/true", "true", nullptr);
  while (number % 3 == 2) ::pause();  // to be killed
  ::_exit(0);
}

// Forks all the time, while it puts, reads and holds plans of both kinds.
int storm(const std::string& socket, Board& board) {
  Worker me(Worker::options(socket, "storm"));
  const Keys held(4, "held"), writing(4, "writing");
  if (!me.usable() || !all_are(me.put(held), Outcome::kStored)) return 1;
  auto put = me.client.put_start(me.ns, writing);
  auto handle = me.client.get_start(me.ns, held);
  if (!put || !handle) return 2;
  auto read = me.client.get_transfer(*handle);
  if (!read) return 3;
  std::vector<pid_t> children;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) end_of_child(i, all_answer_forked_child(me, *put, *read, held));
    if (child < 0) return 4;
    children.push_back(child);
    const Keys keys(2, "storm", static_cast<std::size_t>(2 * i));
    if (!all_are(me.put(keys), Outcome::kStored)) return 5;
    const Got got = me.get(keys);
    if (got.pages != 2 || got.wrong != 0) return 6;
    board.rounds.fetch_add(1);
    if (i % 3 == 2) ::kill(child, SIGKILL);
  }
  for (int i = 0; i < kForks; ++i) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(i)], &status, 0);
    // Who was killed early may not have come to look.
    if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : i % 3 != 2) return 7;
  }
  for (std::size_t i = 0; i < 4; ++i)
    if (!put->copy_in(i, page_of(writing[i]))) return 8;
  const auto done = me.client.put_commit(*put);
  const auto outcomes = done ? done->wait(kPatience) : std::nullopt;
  if (!outcomes || !all_are(*outcomes, Outcome::kStored)) return 9;
  if (Worker::wrong_pages(*read, held) != 0) return 10;
  (void)me.client.release_views(*read);
  me.client.close();
  return 0;
}

TEST(ForkStorm, Parent_works_on_and_children_are_told) {
  World world;
  ASSERT_TRUE(world.ok());
  ChildProcess client([&world](Board& board) { return storm(world.socket(), board); });
  EXPECT_TRUE(eventually([&] { return client.board().rounds.load() == kForks; }, 120));
  EXPECT_EQ(client.wait_exit(), 0);
  world.expect_readable(Keys(4, "writing"));
  world.expect_readable(Keys(2 * kForks, "storm"));
  world.expect_sound();
}

TEST(ForkStorm, Client_killed_in_the_middle_is_given_back_when_its_children_are_gone) {
  World world;
  ASSERT_TRUE(world.ok());
  ChildProcess client([&world](Board& board) {
    ::setpgid(0, 0);  // its children are found by it
    return storm(world.socket(), board);
  });
  EXPECT_TRUE(eventually([&] { return client.board().rounds.load() >= kForks / 4; }, 120));
  client.kill();
  world.expect_readable(Keys(4, "held"));
  ::kill(-client.pid(), SIGKILL);  // those of its children that wait to be killed
  world.expect_sound();
  world.expect_readable(Keys(4, "held"));
}

}  // namespace
}  // namespace orlop::limits_test
