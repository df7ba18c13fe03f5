// SPDX-License-Identifier: Apache-2.0
// What recovery finds again of what was committed, and what not: removed, flushed, read meanwhile.
#include "protocol/node/recover_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;

TEST_F(RecoverTest, Committed_groups_are_all_there_again) {
  world.put(client, row, keys(1, 20), {.groups = {8, 4, 8}});
  const RecoveryReport report = world.restart();
  EXPECT_EQ(world.found(row, keys(1, 20)), 20u);
  EXPECT_EQ(report.groups_kept, 3u);
  EXPECT_EQ(report.slots_kept, 20u);
  EXPECT_EQ(report.slots_doomed + report.prepared_freed, 0u);
  EXPECT_EQ(world.node().namespaces()[0].slots, 20u);
  EXPECT_EQ(world.area().header().incarnation.load(), 2u);
  EXPECT_EQ(world.area().header().server_state.load(),
            static_cast<std::uint32_t>(segment::ServerState::kReady));
  world.put(client, row, keys(100, 20));
}

TEST_F(RecoverTest, Empty_segment_recovers) {
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.slots_walked, 0u);
  world.put(client, row, keys(1, 5));
}

TEST_F(RecoverTest, Free_slots_are_free_again) {
  world.put(client, row, keys(1, 10));
  const std::vector<KeyId> gone = keys(3, 4);
  world.step(event::Remove{client, world.next_request(), row, gone});
  world.background();
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 6u);
  world.put(client, row, keys(1'000, 500));
}

TEST_F(RecoverTest, Plain_retiring_counts_as_present) {
  const auto a = world.put(client, row, keys(1, 3), {.groups = {3}});
  set(slot(a, 0), SlotState::kRetiring);
  set(slot(a, 1), SlotState::kRetiring);  // killed while an eviction marked, or while it restored
  const RecoveryReport report = world.restart();
  EXPECT_EQ(world.found(row, keys(1, 3)), 3u);
  EXPECT_EQ(report.retiring_restored, 2u);
}

TEST_F(RecoverTest, Group_with_a_freed_member_is_dropped) {
  const auto a = world.put(client, row, keys(1, 3), {.groups = {3}});
  for (std::size_t i = 0; i < 3; ++i) set(slot(a, i), SlotState::kRetiring);
  set(slot(a, 0), SlotState::kFree);  // killed while an eviction freed
  const RecoveryReport report = world.restart();
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  EXPECT_EQ(report.slots_doomed, 2u);
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u) << "nobody pins them: freed";
  world.put(client, row, keys(1, 3));
}

TEST_F(RecoverTest, Dropped_slot_waits_for_its_reader) {
  const auto a = world.put(client, row, keys(1, 2), {.groups = {2}});
  const std::uint32_t cell = world.pin(client, slot(a, 1));
  set(slot(a, 0), SlotState::kFree);
  world.restart();
  EXPECT_EQ(world.state(slot(a, 1)), SlotState::kRetiring);
  EXPECT_TRUE(world.word(slot(a, 1)).doomed());
  world.unpin(client, cell);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.state(slot(a, 1)), SlotState::kFree);
}

TEST_F(RecoverTest, Removed_group_does_not_come_back) {
  const auto a = world.put(client, row, keys(1, 3), {.groups = {3}});
  doom(slot(a, 0));  // killed while a remove marked
  world.restart();
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(RecoverTest, Removed_page_with_a_reader_stays_removed_over_two_restarts) {
  const auto a = world.put(client, row, {key(1)});
  const std::uint32_t cell = world.pin(client, slot(a, 0));
  const std::vector<KeyId> gone = {key(1)};
  world.step(event::Remove{client, world.next_request(), row, gone});
  world.restart();
  world.restart();
  EXPECT_FALSE(world.find(row, key(1)));
  EXPECT_EQ(world.state(slot(a, 0)), SlotState::kRetiring);
  world.put(client, row, {key(1)});
  world.unpin(client, cell);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.state(slot(a, 0)), SlotState::kFree);
}

TEST_F(RecoverTest, Flushed_pages_are_dropped) {
  world.put(client, row, keys(1, 5));
  world.step(event::Flush{client, world.next_request(), row, false});
  world.put(client, row, keys(3, 1));
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 1u);
  EXPECT_TRUE(world.find(row, key(3)));
}

TEST_F(RecoverTest, Flush_killed_between_its_stores_loses_only_a_number) {
  world.put(client, row, keys(1, 5));
  world.area().header().next_namespace_index.fetch_add(1);
  world.restart();
  EXPECT_EQ(world.found(row, keys(1, 5)), 5u);
}

TEST_F(RecoverTest, Open_killed_before_its_last_store_leaves_the_row_unused) {
  const NamespaceRow second = world.open(client, 8'192, "second");
  world.area().namespace_row(second).current_index.store(0);
  world.restart();
  EXPECT_EQ(world.node().namespaces().size(), 1u);
  EXPECT_EQ(world.open(client, 8'192, "third"), second);
}

TEST_F(RecoverTest, Order_of_eviction_survives_in_coarse_steps) {
  for (std::uint64_t i = 0; i < 64; ++i) {
    world.put(client, row, keys(i * 8, 8));
    world.now += 4 * kNsPerSecond;
  }
  for (std::uint64_t k = 0; k < 8; ++k) world.touch(client, world.find(row, key(k)));
  world.put(client, row, keys(1'000, 8));  // drains the touches; the second put left
  ASSERT_EQ(world.found(row, keys(8, 8)), 0u);
  world.now += 60 * kNsPerSecond;
  world.restart();
  for (std::uint64_t i = 2; i < 30; ++i) {
    world.put(client, row, keys(2'000 + i * 8, 8));
    EXPECT_EQ(world.found(row, keys(i * 8, 8)), 0u) << i;
    EXPECT_EQ(world.found(row, keys((i + 1) * 8, 8)), 8u) << i;
  }
  EXPECT_EQ(world.found(row, keys(0, 8)), 8u) << "touched later than the others were put";
}

TEST_F(RecoverTest, Prefix_tree_survives) {
  world.put(client, row, keys(0, 8));
  world.put(client, row, {key(8)}, {.parent = key(7)});
  for (std::uint64_t i = 0; i < 503; i += 8)
    world.put(client, row, keys(1'000 + i, std::min<std::uint64_t>(8, 503 - i)));
  world.restart();
  for (std::uint64_t k = 0; k < 512; ++k) {
    world.put(client, row, {key(5'000 + k)});
    bool hole = false;
    for (std::uint64_t i = 0; i < 9; ++i) {
      const bool here = static_cast<bool>(world.find(row, key(i)));
      EXPECT_FALSE(hole && here) << "a page without its prefix";
      hole = hole || !here;
    }
  }
  EXPECT_EQ(world.found(row, keys(0, 9)), 0u);
}

TEST_F(RecoverTest, Several_size_classes_and_clients_recover) {
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  const ClientId other = world.attach("b");
  world.put(client, row, keys(1, 30));
  world.put(other, large, keys(1, 9), {.groups = {4, 5}});
  const auto open = world.put_start(other, large, keys(50, 2));
  world.restart();
  EXPECT_EQ(world.found(row, keys(1, 30)), 30u);
  EXPECT_EQ(world.found(large, keys(1, 9)), 9u);
  EXPECT_THAT(world.commit(other, open), Each(Outcome::kStored));
  const auto clients = world.node().clients(world.now);
  EXPECT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[1].name, "b");
}

TEST_F(RecoverTest, Generations_go_on) {
  const auto a = world.put(client, row, {key(1)});
  const std::vector<KeyId> gone = {key(1)};
  world.step(event::Remove{client, world.next_request(), row, gone});
  world.background();
  world.restart();
  const auto b = world.put_start(client, row, {key(1)});
  EXPECT_EQ(b.grants[0].slot, a.grants[0].slot);
  EXPECT_EQ(b.grants[0].generation, a.grants[0].generation + 1);
}

// Its keeper died before it read the drop: the next one hands the channel over once more.
TEST_F(RecoverTest, Reclaimed_channel_is_reported_and_no_client) {
  const ClientId gone = world.attach("gone");
  const segment::ChannelView channel = world.channel(gone);
  world.put(gone, row, keys(1, 3));
  EXPECT_FALSE(channel.reclaimed(gone));
  world.step(event::Detach{gone, world.next_request()});
  EXPECT_TRUE(channel.reclaimed(gone));
  EXPECT_FALSE(channel.reclaimed(client)) << "of another client";
  const RecoveryReport report = world.restart();
  EXPECT_THAT(report.reclaimed, ElementsAre(gone));
  ASSERT_EQ(world.node().clients(world.now).size(), 1u);
  EXPECT_EQ(world.node().clients(world.now)[0].client, client);
  EXPECT_EQ(world.found(row, keys(1, 3)), 3u);
}

}  // namespace
}  // namespace orlop::protocol
