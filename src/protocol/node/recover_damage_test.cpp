// SPDX-License-Identifier: Apache-2.0
// Tables that no kill leaves, but a stray write or an older fault: a group is dropped, or the start
// refused; no memory is given twice.
#include "protocol/node/recover_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;
using ::testing::Each;

TEST_F(RecoverTest, Torn_row_takes_its_group) {
  const auto a = world.put(client, row, keys(1, 3), {.groups = {2, 1}});
  world.area().slot(slot(a, 1)).key_lo.store(12345);
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.slots_doomed, 2u);
  EXPECT_FALSE(world.find(row, key(1)));
  EXPECT_TRUE(world.find(row, key(3)));
}

// Found by the simulation: a damaged row that names the put of a living writer took its memory.
TEST_F(RecoverTest, Torn_row_takes_no_other_group) {
  const auto damaged = world.put(client, row, keys(1, 3), {.groups = {2, 1}});
  const auto whole = world.put(client, row, keys(10, 2), {.groups = {2}});
  const auto open = world.put_start(client, row, keys(20, 2), {.groups = {2}});
  world.area().slot(slot(damaged, 0)).put.store(open.put.value);
  world.area().slot(slot(damaged, 2)).put.store(whole.put.value);
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.slots_doomed, 3u);
  EXPECT_EQ(report.prepared_kept, 2u) << "their writer lives and may write";
  EXPECT_EQ(world.found(row, keys(10, 2)), 2u);
  EXPECT_EQ(world.found(row, keys(1, 3)), 0u);
  world.step(event::ClientResumed{client, {open.put}});
  EXPECT_THAT(world.commit(client, open), Each(Outcome::kStored));
}

// Found by fuzz_recovery: the index of the row behind the hole was given to the row that filled it,
// and the restart after that was refused.
TEST_F(RecoverTest, Rows_behind_a_hole_in_the_namespace_table_stay_unused) {
  constexpr std::uint32_t kBehind = 3;
  const std::uint32_t next = world.area().header().next_namespace_index.load();
  const auto index_of = [this](std::uint32_t r) {
    return world.area().current_index(NamespaceRow{r}).value;
  };
  world.put(client, row, keys(1, 5));
  world.area().namespace_row(NamespaceRow{kBehind}).current_index.store(next);
  world.restart();
  EXPECT_EQ(index_of(kBehind), 0U);
  for (std::uint32_t r = 1; r <= kBehind; ++r) {
    EXPECT_EQ(world.open(client, 4'096, "m" + std::to_string(r)), NamespaceRow{r});
  }
  world.restart();
  EXPECT_EQ(index_of(kBehind), next + kBehind - 1);
  EXPECT_EQ(world.found(row, keys(1, 5)), 5U);
}

TEST_F(RecoverTest, Cycle_of_forged_parents_is_cut) {
  const auto a = world.put(client, row, {key(1)});
  const auto b = world.put(client, row, {key(2)}, {.parent = key(1)});
  // As 65,536 reuses could make it: the first names the second.
  SlotRow& r = world.area().slot(slot(a, 0));
  segment::SlotFields fields = r.load_fields();
  fields.group.parent = slot(b, 0);
  fields.group.parent_generation = static_cast<std::uint16_t>(b.grants[0].generation);
  const std::uint64_t checksum = r.load_checksum();
  r.store_fields(fields);
  r.store_checksums(checksum, segment::fields_sum(fields, checksum, r.load_word().generation));
  world.restart();
  for (std::uint64_t i = 0; i < 1'024; i += 8) world.put(client, row, keys(1'000 + i, 8));
  EXPECT_EQ(world.found(row, keys(1, 2)), 0u) << "a cycle would never leave";
}

TEST_F(RecoverTest, Duplicate_members_drop_their_group) {
  const auto a = world.put(client, row, keys(1, 2), {.groups = {2}});
  const auto b = world.put(client, row, keys(11, 2), {.groups = {2}});
  SlotRow& r = world.area().slot(slot(b, 0));
  segment::SlotFields fields = r.load_fields();
  fields.put = a.put;  // three members of one group, two of them first
  const std::uint64_t checksum = r.load_checksum();
  r.store_fields(fields);
  r.store_checksums(checksum, segment::fields_sum(fields, checksum, r.load_word().generation));
  world.restart();
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 0u);
}

TEST_F(RecoverTest, Impossible_tables_are_an_error) {
  const auto a = world.put(client, row, {key(1)});
  set(slot(a, 0), static_cast<SlotState>(9));
  world.kill();
  const auto recovered =
      NodeMachine::recover(world.area(), NodeWorld::plain_config(), Incarnation{3}, {}, 0, nullptr);
  ASSERT_FALSE(recovered.has_value());
  EXPECT_EQ(recovered.error().code, ErrorCode::kCorrupt);
}

// Found by tests/fuzz/recovery.cpp.
TEST_F(RecoverTest, Flags_that_no_node_writes_are_an_error) {
  const auto a = world.put_start(client, row, {key(1)});
  segment::SlotRow& slot_row = world.area().slot(SlotId{a.grants[0].slot});
  segment::SlotWord word = slot_row.load_word();
  word.flags = segment::kFlagDoomed;  // only together with Retiring
  slot_row.store_word(word);
  world.kill();
  const auto recovered =
      NodeMachine::recover(world.area(), NodeWorld::plain_config(), Incarnation{3}, {}, 0, nullptr);
  ASSERT_FALSE(recovered.has_value());
  EXPECT_NE(recovered.error().message.find("state 1, flags 1"), std::string::npos)
      << recovered.error().message;
}

// Found by tests/fuzz/recovery.cpp: such a node died at every start.
TEST_F(RecoverTest, Slab_of_a_class_that_no_node_assigns_is_an_error) {
  world.put(client, row, {key(1)});
  world.kill();
  world.area().slab(SlabId{3}).slot_pages.store(world.geometry().ordinals_per_slab + 1);
  const auto recovered =
      NodeMachine::recover(world.area(), NodeWorld::plain_config(), Incarnation{3}, {}, 0, nullptr);
  ASSERT_FALSE(recovered.has_value());
  EXPECT_EQ(recovered.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(recovered.error().message.find("slab 3 have 17 pages"), std::string::npos)
      << recovered.error().message;
}

TEST_F(RecoverTest, Client_handed_over_twice_is_an_error) {
  world.kill();
  const auto& channel = world.channel(client);
  const auto recovered =
      NodeMachine::recover(world.area(), NodeWorld::plain_config(), Incarnation{3},
                           {{client, channel, "a"}, {client, channel, "a"}}, 0, nullptr);
  EXPECT_FALSE(recovered.has_value());
}

}  // namespace
}  // namespace orlop::protocol
