// SPDX-License-Identifier: Apache-2.0
// Puts under way when the server was killed: of whom recovery keeps the memory, and until when.
#include "protocol/node/recover_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;

TEST_F(RecoverTest, All_local_ready_becomes_committed) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 3);
  set(slot(a, 2), SlotState::kCommitted);
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 3u);
  EXPECT_EQ(world.found(row, keys(1, 3)), 3u);
  EXPECT_THAT(world.commit(client, a), Each(Outcome::kStored)) << "posted again, answered alike";
}

TEST_F(RecoverTest, Partly_ready_group_is_finished_by_its_owners_commit) {
  const auto a = world.put_start(client, row, keys(1, 4), {.groups = {3, 1}});
  commit_partly(a, 3);  // the last group and two members of the first
  world.restart();
  EXPECT_FALSE(world.find(row, key(1))) << "a prefix reader does not enter half a group";
  EXPECT_TRUE(world.find(row, key(3)));
  EXPECT_TRUE(world.find(row, key(4)));
  world.step(event::ClientResumed{client, {a.put}});
  world.node().validate();
  EXPECT_THAT(world.commit(client, a), Each(Outcome::kStored));
  EXPECT_EQ(world.found(row, keys(1, 4)), 4u);
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 4u);
  EXPECT_EQ(world.node().gauges(world.now).open_puts, 0u);
}

TEST_F(RecoverTest, Partly_ready_group_goes_when_its_owner_does_not_hold_it) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  world.restart();
  world.step(event::ClientResumed{client, {}});
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  world.node().validate();
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kPrepared) + world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(RecoverTest, Partly_ready_group_goes_at_its_owners_death_even_under_an_open_fork_pipe) {
  const auto a = world.put_start(client, row, keys(1, 4), {.groups = {3, 1}});
  commit_partly(a, 3);
  set(slot(a, 3), SlotState::kPrepared);  // the single one is purely Prepared
  world.restart();
  world.step(event::ClientDied{client, true});
  EXPECT_EQ(world.found(row, keys(1, 4)), 0u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 1u);
  world.node().validate();
  world.step(event::ForkPipeClosed{client});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(RecoverTest, Partly_ready_group_of_nobody_is_dropped) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  world.kill();
  world.forget_channel(client);
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kPrepared) + world.in_state(SlotState::kLocalReady), 0u);
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(RecoverTest, Partly_ready_group_with_a_doomed_member_is_dropped) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  doom(slot(a, 2));
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  EXPECT_THAT(world.commit(client, a), Each(Outcome::kEvicted));
}

TEST_F(RecoverTest, Partly_ready_group_is_taken_by_remove_and_by_flush) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  world.restart();
  const std::vector<KeyId> gone = {key(3)};
  world.step(event::Remove{client, world.next_request(), row, gone});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  world.node().validate();
  const auto b = world.put_start(client, row, keys(11, 3), {.groups = {3}});
  commit_partly(b, 1);
  world.restart();
  world.step(event::Flush{client, world.next_request(), row, false});
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_THAT(world.commit(client, b), Each(Outcome::kEvicted));
}

TEST_F(RecoverTest, Partly_ready_group_is_dropped_by_abort) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  world.restart();
  world.abort(client, a.put);
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(RecoverTest, Commit_again_with_another_checksum_drops_a_partly_ready_group) {
  const auto a = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  commit_partly(a, 2);
  world.restart();
  auto entries = a.entries();
  ++entries[2].checksum;
  EXPECT_THAT(world.commit(client, a.put, entries), Each(Outcome::kEvicted));
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
}

TEST_F(RecoverTest, Prepared_of_a_client_is_kept_until_it_speaks) {
  const auto held = world.put_start(client, row, keys(1, 3), {.groups = {3}});
  const auto lost = world.put_start(client, row, keys(4, 2));
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.prepared_kept, 5u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 5u);
  EXPECT_THAT(world.put_start(client, row, keys(1, 2)).outcomes, Each(Outcome::kInFlight));
  world.step(event::ClientResumed{client, {held.put}});
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 3u);
  EXPECT_THAT(world.commit(client, lost), Each(Outcome::kEvicted));
  EXPECT_THAT(world.commit(client, held), Each(Outcome::kStored));
}

TEST_F(RecoverTest, Prepared_of_nobody_is_freed) {
  world.put_start(client, row, keys(1, 3));
  world.kill();
  world.forget_channel(client);
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.prepared_freed, 3u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(RecoverTest, Prepared_of_a_dead_client_is_freed_at_its_death_notice) {
  world.put_start(client, row, keys(1, 3));
  world.restart();
  world.step(event::ClientDied{client, false});
  EXPECT_EQ(world.effects().reclaimed.size(), 1u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(RecoverTest, Half_prepared_group_is_kept_but_never_stored) {
  const auto a = world.put_start(client, row, keys(1, 4), {.groups = {4}});
  set(slot(a, 2), SlotState::kFree);  // killed inside put_start or inside an abort
  set(slot(a, 3), SlotState::kFree);
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 2u);
  auto entries = a.entries();
  entries.resize(2);
  EXPECT_THAT(world.commit(client, a.put, entries), Each(Outcome::kEvicted));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(RecoverTest, Prepared_of_a_flushed_namespace_answers_flushed) {
  const auto a = world.put_start(client, row, keys(1, 2));
  world.step(event::Flush{client, world.next_request(), row, false});
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 2u);
  EXPECT_THAT(world.commit(client, a), Each(Outcome::kFlushed));
}

}  // namespace
}  // namespace orlop::protocol
