// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct DrainWorld : NodeWorld {
  using NodeWorld::NodeWorld;
  struct Drained {
    bool draining = false;
    std::uint64_t puts = 0, pages = 0;
  };
  Drained drain(ClientId client, DrainMode mode) {
    const NodeAnswer* answer = nullptr;
    const RequestId request = next_request();
    step(event::Drain{client, request, mode});
    for (const NodeAnswer& one : effects().answers)
      if (one.request == request) answer = &one;
    EXPECT_NE(answer, nullptr);
    if (answer == nullptr) return {};
    EXPECT_EQ(answer->status, kStatusOk);
    return {answer->args[0] == 1, answer->args[1], answer->args[2]};
  }
};

class DrainTest : public ::testing::Test {
 protected:
  DrainWorld world;
  const ClientId client = world.attach();
  const NamespaceRow ns = world.open(client);
};

TEST_F(DrainTest, New_puts_are_not_admitted_and_say_why) {
  EXPECT_TRUE(world.drain(client, DrainMode::kBegin).draining);
  EXPECT_TRUE(world.node().gauges(world.now).draining);
  const auto put = world.put_start(client, ns, keys(1, 3));
  EXPECT_EQ(put.outcomes, times(3, Outcome::kNotAdmitted));
  EXPECT_THAT(put.text, HasSubstr("draining"));
  EXPECT_THAT(put.text, HasSubstr("orlop drain --undo"));
  EXPECT_EQ(world.node().gauges(world.now).open_puts, 0u);
}

TEST_F(DrainTest, What_is_stored_or_in_flight_is_answered_as_ever) {
  world.put(client, ns, {key(1)});
  const auto open = world.put_start(client, ns, {key(2)});
  world.drain(client, DrainMode::kBegin);
  const auto put = world.put_start(client, ns, keys(1, 3));
  EXPECT_THAT(put.outcomes,
              ElementsAre(Outcome::kExists, Outcome::kInFlight, Outcome::kNotAdmitted));
  // A group that has a stored member is split first: that is the caller's to mend.
  const auto group = world.put_start(client, ns, {key(1), key(7)}, {.groups = {2}});
  EXPECT_THAT(group.outcomes, ElementsAre(Outcome::kExists, Outcome::kGroupSplit));
  EXPECT_EQ(world.commit(client, open), times(1, Outcome::kStored));
}

TEST_F(DrainTest, Puts_under_way_commit_and_pages_stay_readable) {
  const auto open = world.put_start(client, ns, keys(1, 4), {.groups = {2, 2}});
  EXPECT_EQ(world.drain(client, DrainMode::kBegin).puts, 1u);
  EXPECT_EQ(world.commit(client, open), times(4, Outcome::kStored));
  EXPECT_EQ(world.found(ns, keys(1, 4)), 4u);
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).puts, 0u);
}

TEST_F(DrainTest, Undo_admits_puts_again) {
  world.drain(client, DrainMode::kBegin);
  EXPECT_FALSE(world.drain(client, DrainMode::kEnd).draining);
  world.put(client, ns, keys(1, 2));
}

TEST_F(DrainTest, Asking_changes_nothing) {
  EXPECT_FALSE(world.drain(client, DrainMode::kAsk).draining);
  world.put(client, ns, {key(1)});
  world.drain(client, DrainMode::kBegin);
  EXPECT_TRUE(world.drain(client, DrainMode::kAsk).draining);
}

TEST_F(DrainTest, Pages_held_by_living_clients_are_counted_every_ten_milliseconds) {
  world.put(client, ns, keys(1, 2));
  const ClientId reader = world.attach("reader");
  const std::uint32_t cell = world.pin(reader, world.find(ns, key(1)));
  world.pin(reader, world.find(ns, key(2)));
  EXPECT_EQ(world.drain(client, DrainMode::kBegin).pages, 2u);
  world.unpin(reader, cell);
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).pages, 2u);
  world.now += 10 * kNsPerMs;
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).pages, 1u);
  world.step(event::ClientDied{reader, false});
  world.now += 10 * kNsPerMs;
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).pages, 0u);
}

// Three clients whose ledgers are full cost 3 ms a pass, so a pass every 10 ms is too often.
TEST_F(DrainTest, Passes_over_large_ledgers_are_spaced_by_what_they_cost) {
  constexpr std::uint32_t kCells = 1'000'000;
  std::vector<ClientId> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(world.attach("reader", kCells));
  for (const ClientId reader : readers) {
    const segment::ChannelView& channel = world.channel(reader);
    for (std::uint32_t w = 0; w < channel.bitmap_words(); ++w)
      channel.bitmap()[w].store(~std::uint64_t{0});
  }
  world.put(client, ns, {key(1)});
  EXPECT_EQ(world.drain(client, DrainMode::kBegin).pages, 0u);
  world.pin(readers[0], world.find(ns, key(1)));
  world.now += 10 * kNsPerMs;
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).pages, 0u);
  world.node().read_clients(world.now);  // a status in between does not pass over them either
  EXPECT_EQ(world.node().clients(world.now)[1].pinned_cells, 0u);
  world.now += 21 * kNsPerMs;
  EXPECT_EQ(world.drain(client, DrainMode::kAsk).pages, 1u);
}

TEST_F(DrainTest, Drain_survives_a_restart_of_the_server_and_so_does_its_end) {
  world.put(client, ns, {key(1)});
  world.drain(client, DrainMode::kBegin);
  world.restart();
  EXPECT_TRUE(world.node().gauges(world.now).draining);
  EXPECT_EQ(world.put_start(client, ns, {key(2)}).outcomes, times(1, Outcome::kNotAdmitted));
  EXPECT_EQ(world.found(ns, {key(1)}), 1u);
  world.drain(client, DrainMode::kEnd);
  world.restart();
  world.put(client, ns, {key(2)});
}

TEST_F(DrainTest, Put_of_before_a_restart_commits_after_it) {
  const auto open = world.put_start(client, ns, keys(1, 3), {.groups = {3}});
  world.drain(client, DrainMode::kBegin);
  world.restart();
  world.step(event::ClientResumed{client, {open.put}});
  EXPECT_EQ(world.commit(client, open), times(3, Outcome::kStored));
}

TEST_F(DrainTest, A_put_that_waits_for_memory_is_not_admitted_at_once) {
  // All memory is Prepared, so the second put waits.
  const auto all = world.put_start(client, ns, keys(1, 512));
  ASSERT_EQ(all.outcomes, times(512, Outcome::kPrepared));
  const ClientId second = world.attach("second");
  const auto waits = world.put_start(second, ns, {key(1'000)}, {.wait = 10 * kNsPerMs});
  ASSERT_FALSE(waits.answered);
  const RequestId waiting = world.last_put_request();
  const auto drained = world.drain(client, DrainMode::kBegin);
  EXPECT_EQ(drained.puts, 1u);  // that of `all`
  const auto answered = world.read_answer(waits.put, waiting);
  EXPECT_TRUE(answered.answered);
  EXPECT_EQ(answered.outcomes, times(1, Outcome::kNotAdmitted));
}

TEST_F(DrainTest, An_unknown_client_is_not_heard) {
  EXPECT_EQ(world.step(event::Drain{ClientId{99}, RequestId{1}, DrainMode::kBegin}), nullptr);
  EXPECT_FALSE(world.node().gauges(world.now).draining);
}

}  // namespace
}  // namespace orlop::protocol
