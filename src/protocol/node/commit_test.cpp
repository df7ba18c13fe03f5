// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CommitTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach();
  NamespaceRow row = world.open(client);
};

TEST_F(CommitTest, Repeated_commit_answers_the_same_and_changes_nothing) {
  const auto started = world.put(client, row, keys(1, 3), {.groups = {2, 1}});
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kStored));
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 3u);
  EXPECT_EQ(world.node().gauges(world.now).index_entries, 3u);
}

TEST_F(CommitTest, Checksum_is_stored_before_the_page_is_readable) {
  const auto started = world.put(client, row, {key(1)});
  const auto& slot = world.area().slot(SlotId{started.grants[0].slot});
  EXPECT_EQ(slot.load_checksum(), started.entries()[0].checksum);
  EXPECT_EQ(slot.load_fields_sum(), segment::fields_sum(slot.load_fields(), slot.load_checksum(),
                                                        slot.load_word().generation));
}

TEST_F(CommitTest, Groups_may_be_committed_one_by_one) {
  const auto started = world.put_start(client, row, keys(1, 4), {.groups = {2, 2}});
  const auto entries = started.entries();
  EXPECT_THAT(world.commit(client, started.put, {entries[2], entries[3]}), Each(Outcome::kStored));
  EXPECT_EQ(world.found(row, keys(1, 4)), 2u);
  world.node().validate();
  EXPECT_EQ(world.node().gauges(world.now).open_puts, 1u);
  EXPECT_THAT(world.commit(client, started.put, {entries[0], entries[1]}), Each(Outcome::kStored));
  EXPECT_EQ(world.node().gauges(world.now).open_puts, 0u);
}

TEST_F(CommitTest, Missing_member_takes_the_whole_group) {
  const auto started = world.put_start(client, row, keys(1, 5), {.groups = {3, 2}});
  auto entries = started.entries();
  entries.erase(entries.begin() + 1);
  EXPECT_THAT(
      world.commit(client, started.put, entries),
      ElementsAre(Outcome::kEvicted, Outcome::kEvicted, Outcome::kStored, Outcome::kStored));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_EQ(world.found(row, keys(1, 5)), 2u);
}

TEST_F(CommitTest, Wrong_member_takes_the_whole_group) {
  const struct {
    const char* name;
    void (*spoil)(CommitEntry&);
  } kCases[] = {
      {"generation", [](CommitEntry& e) { ++e.generation; }},
      {"slot 0", [](CommitEntry& e) { e.slot = 0; }},
      {"slot in a hole", [](CommitEntry& e) { e.slot = 400; }},
      {"slot out of range", [](CommitEntry& e) { e.slot = 0xfffffff0; }},
  };
  std::uint64_t first = 1;
  for (const auto& c : kCases) {
    for (std::size_t member = 0; member < 3; ++member) {
      const auto started = world.put_start(client, row, keys(first, 3), {.groups = {3}});
      auto entries = started.entries();
      c.spoil(entries[member]);
      EXPECT_THAT(world.commit(client, started.put, entries), Each(Outcome::kEvicted)) << c.name;
      EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u) << c.name;
      EXPECT_EQ(world.found(row, keys(first, 3)), 0u) << c.name;
      world.node().validate();
      first += 3;
    }
  }
}

TEST_F(CommitTest, Order_of_members_is_part_of_the_group) {
  const auto started = world.put_start(client, row, keys(1, 2), {.groups = {2}});
  auto entries = started.entries();
  std::swap(entries[0], entries[1]);
  EXPECT_THAT(world.commit(client, started.put, entries), Each(Outcome::kEvicted));
}

TEST_F(CommitTest, Foreign_put_is_refused_and_untouched) {
  const ClientId other = world.attach();
  const auto started = world.put_start(client, row, keys(1, 2));
  EXPECT_TRUE(world.commit(other, started).empty());
  EXPECT_THAT(world.text_of(world.effects().answers[0]), HasSubstr("another client"));
  // Its own put id does not help with foreign slots.
  EXPECT_THAT(world.commit(other, make_put_id(other, 1), started.entries()),
              Each(Outcome::kEvicted));
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kStored));
}

TEST_F(CommitTest, Empty_commit_is_refused) {
  EXPECT_TRUE(world.commit(client, make_put_id(client, 1), {}).empty());
  EXPECT_THAT(world.text_of(world.effects().answers[0]), HasSubstr("entries is empty"));
}

TEST_F(CommitTest, Key_stored_meanwhile_splits_its_group) {
  const auto old = world.put_start(client, row, keys(1, 3), {.groups = {2, 1}});
  world.now += 10 * kNsPerSecond;
  world.put(client, row, {key(2)});
  EXPECT_THAT(world.commit(client, old),
              ElementsAre(Outcome::kGroupSplit, Outcome::kExists, Outcome::kStored));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 2u);
}

TEST_F(CommitTest, Flushed_namespace_takes_the_put) {
  const auto started = world.put_start(client, row, keys(1, 3));
  world.step(event::Flush{client, world.next_request(), row, false});
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kFlushed));
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kEvicted)) << "nothing is known of it";
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  world.put(client, row, keys(1, 3));
}

TEST_F(CommitTest, Repeated_commit_with_another_checksum_takes_the_group) {
  const auto started = world.put(client, row, {key(1)});
  auto entries = started.entries();
  ++entries[0].checksum;
  EXPECT_THAT(world.commit(client, started.put, entries), Each(Outcome::kEvicted));
  EXPECT_FALSE(world.find(row, key(1)));
}

TEST_F(CommitTest, Commit_of_a_removed_page_answers_evicted) {
  const auto started = world.put(client, row, keys(1, 2));
  const auto gone = keys(1, 1);
  world.step(event::Remove{client, world.next_request(), row, gone});
  EXPECT_THAT(world.commit(client, started), ElementsAre(Outcome::kEvicted, Outcome::kStored));
}

TEST_F(CommitTest, Same_group_twice_in_one_commit_counts_once) {
  const auto started = world.put_start(client, row, keys(1, 2), {.groups = {2}});
  auto entries = started.entries();
  entries.insert(entries.end(), entries.begin(), entries.begin() + 2);
  EXPECT_EQ(world.commit(client, started.put, entries), times(4, Outcome::kStored));
  EXPECT_EQ(world.node().gauges(world.now).index_entries, 2u);
}

}  // namespace
}  // namespace orlop::protocol
