// SPDX-License-Identifier: Apache-2.0
// Out of file descriptors, in each process and at each step of an attach: the client is told what
// to raise, those who are attached notice nothing, and when there are descriptors again all is
// well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "resources.h"
#include "world.h"

namespace orlop::limits_test {
namespace {

using ::testing::HasSubstr;
using namespace negative_test;
using process_test::eventually;

// More than an attach needs in any process: 7 in the keeper, 9 in the server, 8 in the client.
constexpr unsigned kEnough = 12;

// Refused attaches at the least, so that the scans check something. A descriptor that a process has
// open only for a moment when its limit is set (a connection of ours) shifts the scan by one.
constexpr unsigned kSomeRefused = 3;

pid_t server_of(World& world) {
  return static_cast<pid_t>(world.daemon().status().server_pid);
}

// The error of the first attempt, or that it is attached.
Result<void> outcome_of(const Client& client) {
  EXPECT_TRUE(eventually([&] { return client.ready() || tried(client); }))
      << "an attach that neither succeeds nor fails";
  if (client.ready()) return {};
  return std::unexpected(client.last_attach_error());
}

// Who attaches while `pid` has so few descriptors is told to raise the limit, or is attached.
// Answers whether it was refused.
bool expect_told(World& world, pid_t pid, unsigned left, const std::string& who) {
  std::optional<Client> client;
  bool refused = false;
  {
    const DescriptorsLeft few(pid, left);
    client.emplace(Worker::options(world.socket(), "late"));
    const auto outcome = outcome_of(*client);
    refused = !outcome;
    if (!outcome) {
      EXPECT_THAT(outcome.error().message, HasSubstr("ulimit -n"))
          << who << " with " << left << " descriptors left";
    }
    const Keys keys(4, who + std::to_string(left) + "-");
    EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored)) << who << " " << left;
    world.expect_readable(keys);
  }
  // A client that could not even get its own two descriptors says so for good (core_close.cpp).
  if (pid == ::getpid() && left < 2) client.emplace(Worker::options(world.socket(), "later"));
  EXPECT_TRUE(client->wait_ready(kPatience))
      << who << " with " << left << " descriptors before: " << client->last_attach_error().message;
  client->close();
  return refused;
}

unsigned scan(World& world, const std::function<pid_t()>& process, const std::string& who) {
  unsigned refused = 0;
  for (unsigned left = 0; left <= kEnough; ++left)
    refused += expect_told(world, process(), left, who) ? 1 : 0;
  return refused;
}

TEST(Descriptors, Server_that_has_none_refuses_and_says_what_to_raise) {
  World world;
  ASSERT_TRUE(world.ok());
  const auto before = footprint_of(server_of(world));
  EXPECT_GE(scan(world, [&] { return server_of(world); }, "server"), kSomeRefused);
  world.expect_sound();
  EXPECT_EQ(world.daemon().status().restarts, 0U) << world.daemon().log();
  EXPECT_LE(footprint_of(server_of(world)).descriptors, before.descriptors + 2);
}

TEST(Descriptors, Keeper_that_has_none_refuses_and_says_what_to_raise) {
  World world;
  ASSERT_TRUE(world.ok());
  const pid_t keeper = world.daemon().keeper_pid();
  const auto before = footprint_of(keeper);
  EXPECT_GE(scan(world, [&] { return keeper; }, "keeper"), kSomeRefused);
  world.expect_sound();
  EXPECT_EQ(world.daemon().status().restarts, 0U) << world.daemon().log();
  EXPECT_LE(footprint_of(keeper).descriptors, before.descriptors);
}

TEST(Descriptors, Client_that_has_none_says_what_to_raise) {
  World world;
  ASSERT_TRUE(world.ok());
  const auto before = footprint_of(::getpid());
  // The first client is attached and reads without any; what is new cannot be had.
  EXPECT_GE(scan(world, [] { return ::getpid(); }, "client"), kSomeRefused);
  world.expect_sound();
  EXPECT_LE(footprint_of(::getpid()).descriptors, before.descriptors);
}

// Refused clients keep asking, and connections wait in the listener's queue; that must not cost the
// others a CPU.
TEST(Descriptors, Refusing_is_no_busy_loop) {
  World world;
  ASSERT_TRUE(world.ok());
  const auto sleeps = [&] { return world.daemon().metric("orlop_sleeps_total"); };
  const auto refused = [&] {
    return world.daemon().metric("orlop_refused_total{reason=\"limit\"}");
  };
  const double sleeps_before = sleeps(), refused_before = refused();
  {
    const DescriptorsLeft none(server_of(world), 0);
    std::vector<std::unique_ptr<Client>> waiting;
    for (int i = 0; i < 8; ++i)
      waiting.push_back(std::make_unique<Client>(Worker::options(world.socket(), "waiting")));
    for (const auto& client : waiting) EXPECT_FALSE(outcome_of(*client));
    // Until some of them have asked again: one by one.
    const auto last = waiting.back()->last_attach_error();
    EXPECT_EQ(last.code, ErrorCode::kLimit) << last.message;
  }
  const double attempts = refused() - refused_before;
  EXPECT_GE(attempts, 8);
  // A refusal takes a handful of events; a loop that turns would have thousands.
  EXPECT_LT(sleeps() - sleeps_before, 50 * attempts + 500);
}

// The server dies while its keeper cannot make another: hits go on, and the keeper tries again.
TEST(Descriptors, Server_that_cannot_be_started_comes_when_it_can) {
  World world;
  ASSERT_TRUE(world.ok());
  const Keys keys(16, "kept");
  ASSERT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  const auto segment = world.daemon().status().segment;
  for (unsigned left = 0; left <= 6; ++left) {
    const auto restarts = world.daemon().status().restarts;
    {
      const pid_t server = server_of(world);
      const DescriptorsLeft few(world.daemon().keeper_pid(), left);
      world.daemon().kill_server();
      // The dead server's descriptors come free: what is left now may be enough.
      ASSERT_TRUE(eventually([&] {
        return world.daemon().log().find("server_not_started") != std::string::npos ||
               world.daemon().status().restarts > restarts;
      })) << left
          << world.daemon().log();
      EXPECT_NE(server, 0);
      world.expect_readable(keys);
    }
    ASSERT_TRUE(world.daemon().wait_serving(restarts + 1)) << left << world.daemon().log();
    ASSERT_TRUE(eventually([&] { return world.worker().client.ready(); }));
  }
  EXPECT_EQ(world.daemon().status().segment, segment);
  world.expect_readable(keys);
  world.expect_sound();
}

}  // namespace
}  // namespace orlop::limits_test
