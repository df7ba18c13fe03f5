// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClientsTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach("a");
  ClientId other = world.attach("b");
  NamespaceRow row = world.open(client);

  bool reclaimed(ClientId id) {
    for (const ChannelReclaimed& r : world.effects().reclaimed)
      if (r.client == id) return true;
    return false;
  }
};

TEST_F(ClientsTest, Death_frees_prepared_and_reclaims) {
  world.put_start(client, row, keys(1, 3));
  world.step(event::ClientDied{client, false});
  EXPECT_TRUE(reclaimed(client));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_EQ(world.node().counters().prepared_reclaimed, 3u);
  EXPECT_THAT(world.node().clients(world.now), SizeIs(1));
  world.put(other, row, keys(1, 3));
}

TEST_F(ClientsTest, Open_fork_pipe_keeps_prepared_slots_but_no_pins) {
  const auto stored = world.put(other, row, keys(10, 1));
  world.put_start(client, row, keys(1, 3));
  world.pin(client, SlotId{stored.grants[0].slot});
  world.step(event::ClientDied{client, true});
  EXPECT_FALSE(reclaimed(client));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 3u);
  const auto gauges = world.node().clients(world.now);
  EXPECT_TRUE(gauges[0].dead);
  EXPECT_TRUE(gauges[0].held_by_fork);
  EXPECT_EQ(gauges[0].pinned_cells, 0u);
  const std::vector<KeyId> gone = {key(10)};
  world.step(event::Remove{other, world.next_request(), row, gone});
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u) << "the dead client's pin does not count";
  world.step(event::ForkPipeClosed{client});
  EXPECT_TRUE(reclaimed(client));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(ClientsTest, Open_fork_pipe_with_nothing_prepared_is_reclaimed_at_once) {
  world.step(event::ClientDied{client, true});
  EXPECT_TRUE(reclaimed(client));
}

TEST_F(ClientsTest, Death_of_a_reader_lets_its_pages_go) {
  const auto stored = world.put(other, row, keys(10, 1));
  world.pin(client, SlotId{stored.grants[0].slot});
  const std::vector<KeyId> gone = {key(10)};
  world.step(event::Remove{other, world.next_request(), row, gone});
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 1u);
  world.step(event::ClientDied{client, false});
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(ClientsTest, Events_of_unknown_clients_are_ignored) {
  const ClientId unknown{99};
  const std::string text = "{}";
  const auto some = keys(1, 1);
  world.step(event::ClientLost{unknown});
  world.step(event::ClientDied{unknown, false});
  world.step(event::ForkPipeClosed{unknown});
  world.step(event::ClientResumed{unknown, {}});
  world.step(event::Detach{unknown, RequestId{1}});
  world.step(event::OpenNamespace{unknown, RequestId{1}, text});
  world.step(event::Remove{unknown, RequestId{1}, row, some});
  world.step(event::Flush{unknown, RequestId{1}, row, false});
  world.step(event::PutAbort{unknown, RequestId{1}, make_put_id(unknown, 1)});
  world.step(event::ReportMismatch{unknown, RequestId{1}, {}});
  EXPECT_THAT(world.effects().answers, IsEmpty());
  EXPECT_THAT(world.effects().reclaimed, IsEmpty());
}

TEST_F(ClientsTest, Lost_client_keeps_what_it_holds) {
  const auto started = world.put_start(client, row, keys(1, 3));
  world.step(event::ClientLost{client});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 3u);
  EXPECT_TRUE(world.node().clients(world.now)[0].lost);
  world.step(event::ClientResumed{client, {started.put}});
  EXPECT_FALSE(world.node().clients(world.now)[0].lost);
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kStored));
}

TEST_F(ClientsTest, Resume_frees_what_it_does_not_hold) {
  const auto first = world.put_start(client, row, keys(1, 3));
  const auto lost_answer = world.put_start(client, row, keys(4, 3));
  const auto third = world.put_start(client, row, keys(7, 3));
  const auto foreign = world.put_start(other, row, keys(20, 1));
  world.step(event::ClientResumed{client, {third.put, first.put}});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 7u);
  EXPECT_EQ(world.node().counters().prepared_reclaimed, 3u);
  EXPECT_THAT(world.commit(client, lost_answer), Each(Outcome::kEvicted));
  EXPECT_THAT(world.commit(client, first), Each(Outcome::kStored));
  EXPECT_THAT(world.commit(client, third), Each(Outcome::kStored));
  EXPECT_THAT(world.commit(other, foreign), Each(Outcome::kStored));
}

TEST_F(ClientsTest, Resume_drops_waiting_puts_without_an_answer) {
  std::vector<std::uint32_t> cells;
  for (std::uint64_t i = 0; i < 512; i += 8) {
    const auto stored = world.put(other, row, keys(1'000 + i, 8));
    for (const SlotGrant& grant : stored.grants) world.pin(other, SlotId{grant.slot});
  }
  const auto waiting = world.put_start(client, row, keys(1, 1), {.wait = 10 * kNsPerMs});
  EXPECT_FALSE(waiting.answered);
  world.step(event::ClientResumed{client, {}});
  EXPECT_THAT(world.effects().answers, IsEmpty());
  EXPECT_EQ(world.node().gauges(world.now).waiting_puts, 0u);
}

TEST_F(ClientsTest, Detach_is_answered_and_reclaims) {
  world.put_start(client, row, keys(1, 3));
  const NodeAnswer* answer = world.step(event::Detach{client, world.next_request()});
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->code, RequestCode::kDetach);
  EXPECT_TRUE(reclaimed(client));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  world.step(event::ClientDied{client, false});
  EXPECT_FALSE(reclaimed(client)) << "reclaimed once";
}

TEST_F(ClientsTest, Idle_node_has_nothing_open) {
  const auto started = world.put(client, row, keys(1, 20));
  const auto cell = world.pin(client, SlotId{started.grants[0].slot});
  world.unpin(client, cell);
  const auto open = world.put_start(client, row, keys(30, 4));
  world.abort(client, open.put);
  world.background();
  const NodeGauges g = world.node().gauges(world.now);
  EXPECT_EQ(g.prepared_bytes + g.pinned_groups + g.doomed_slots + g.waiting_puts + g.open_puts, 0u);
  EXPECT_EQ(g.policy.pending, 0u);
  for (const ClientGauges& c : world.node().clients(world.now))
    EXPECT_EQ(c.prepared_slots + c.pinned_cells + c.open_puts, 0u);
  EXPECT_EQ(world.node().next_deadline(), kNever);
}

}  // namespace
}  // namespace orlop::protocol
