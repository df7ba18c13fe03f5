// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PutTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach();
  NamespaceRow row = world.open(client);
};

TEST_F(PutTest, Put_of_new_keys_is_prepared_then_stored) {
  const auto started = world.put_start(client, row, keys(1, 8));
  EXPECT_THAT(started.outcomes, Each(Outcome::kPrepared));
  EXPECT_EQ(world.found(row, keys(1, 8)), 0u) << "nothing is discoverable before the commit";
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 8u);
  for (std::size_t i = 1; i < started.grants.size(); ++i)
    EXPECT_EQ(started.grants[i].slot, started.grants[0].slot + i) << "one run of adjacent slots";
  EXPECT_EQ(world.commit(client, started), times(8, Outcome::kStored));
  EXPECT_EQ(world.found(row, keys(1, 8)), 8u);
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 8u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  EXPECT_EQ(world.node().gauges(world.now).open_puts, 0u);
}

TEST_F(PutTest, Key_that_exists_or_is_in_flight_gets_no_memory) {
  world.put(client, row, keys(1, 2));
  const auto writer = world.put_start(client, row, keys(3, 1));
  const auto started = world.put_start(client, row, keys(1, 4));
  EXPECT_THAT(started.outcomes, ElementsAre(Outcome::kExists, Outcome::kExists, Outcome::kInFlight,
                                            Outcome::kPrepared));
  EXPECT_EQ(started.grants[0].slot, 0u);
  EXPECT_EQ(started.grants[2].slot, 0u);
  EXPECT_NE(started.grants[3].slot, 0u);
  EXPECT_EQ(world.commit(client, writer), times(1, Outcome::kStored));
}

TEST_F(PutTest, Group_with_a_taken_member_is_split) {
  world.put(client, row, {key(2)});
  const auto started = world.put_start(client, row, keys(1, 5), {.groups = {3, 2}});
  EXPECT_THAT(started.outcomes,
              ElementsAre(Outcome::kGroupSplit, Outcome::kExists, Outcome::kGroupSplit,
                          Outcome::kPrepared, Outcome::kPrepared));
  EXPECT_EQ(world.commit(client, started), times(2, Outcome::kStored));
  EXPECT_EQ(world.found(row, keys(1, 5)), 3u);
}

TEST_F(PutTest, Same_key_in_another_namespace_is_another_value) {
  const NamespaceRow other = world.open(client, 4'096, "model", 1);
  world.put(client, row, keys(1, 3));
  world.put(client, other, keys(1, 3));
  EXPECT_NE(world.find(row, key(1)), world.find(other, key(1)));
}

TEST_F(PutTest, Stopped_writer_does_not_block_its_key_for_ever) {
  const auto old = world.put_start(client, row, keys(1, 2));
  world.now += 10 * kNsPerSecond - 1;
  EXPECT_THAT(world.put_start(client, row, {key(1)}).outcomes, ElementsAre(Outcome::kInFlight));
  world.now += 1;
  const auto next = world.put_start(client, row, {key(1)});
  EXPECT_THAT(next.outcomes, ElementsAre(Outcome::kPrepared));
  EXPECT_THAT(world.put_start(client, row, {key(1)}).outcomes, ElementsAre(Outcome::kInFlight))
      << "the newer writer blocks it now";
  EXPECT_EQ(world.commit(client, next), times(1, Outcome::kStored));
  EXPECT_THAT(world.commit(client, old), ElementsAre(Outcome::kExists, Outcome::kStored));
  EXPECT_EQ(world.find(row, key(1)).value, next.grants[0].slot);
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 2u);
}

TEST_F(PutTest, First_commit_wins_also_for_the_older_writer) {
  const auto old = world.put_start(client, row, {key(1)});
  world.now += 10 * kNsPerSecond;
  const auto next = world.put_start(client, row, {key(1)});
  EXPECT_EQ(world.commit(client, old), times(1, Outcome::kStored));
  EXPECT_THAT(world.put_start(client, row, {key(1)}).outcomes, ElementsAre(Outcome::kExists));
  EXPECT_EQ(world.commit(client, next), times(1, Outcome::kExists));
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
}

TEST_F(PutTest, Writer_out_of_sight_still_stores_a_key_once) {
  const auto first = world.put_start(client, row, {key(1)});
  world.now += 10 * kNsPerSecond;
  const auto second = world.put_start(client, row, {key(1)});
  world.abort(client, second.put);  // the key looks free now, but `first` may still commit
  const auto third = world.put_start(client, row, {key(1)});
  EXPECT_THAT(third.outcomes, ElementsAre(Outcome::kPrepared));
  EXPECT_EQ(world.commit(client, first), times(1, Outcome::kStored));
  EXPECT_EQ(world.commit(client, third), times(1, Outcome::kExists));
}

TEST_F(PutTest, Bad_arguments_are_refused_by_name_and_reserve_nothing) {
  const auto twice = [] {
    auto list = keys(1, 5);
    list[4] = list[2];
    return list;
  }();
  const struct {
    const char* name;
    std::vector<KeyId> of;
    NodeWorld::PutExtras extras;
    NamespaceRow row;
    const char* part;
  } kCases[] = {
      {"no keys", {}, {}, row, "keys is empty"},
      {"too many keys", keys(1, 65'536), {}, row, "keys has 65536 entries"},
      {"duplicate", twice, {}, row, "keys[4] equals keys[2]"},
      {"value_len 0", keys(1, 1), {.value_len = 0}, row, "value_len is 0"},
      {"other value_len",
       keys(1, 1),
       {.value_len = 8'192},
       row,
       "value_len is 8192, but the namespace was opened with 4096"},
      {"group of none", keys(1, 3), {.groups = {3, 0}}, row, "atomic_group_lens[1] is 0"},
      {"groups too short",
       keys(1, 3),
       {.groups = {1, 1}},
       row,
       "atomic_group_lens add up to 2, but there are 3 keys"},
      {"groups too long", keys(1, 3), {.groups = {4}}, row, "add up to 4"},
      {"group overflow", keys(1, 3), {.groups = {0xffffffff, 4}}, row, "add up to 4294967299"},
      {"row never opened",
       keys(1, 1),
       {.value_len = 4'096},
       NamespaceRow{5},
       "namespace row 5 is not open"},
      {"row out of range",
       keys(1, 1),
       {.value_len = 4'096},
       NamespaceRow{0xffffffff},
       "is not open"},
      {"foreign put id",
       keys(1, 1),
       {.put = make_put_id(ClientId{9}, 1)},
       row,
       "put id belongs to another client"},
  };
  for (const auto& c : kCases) {
    const auto started = world.put_start(client, c.row, c.of, c.extras);
    EXPECT_EQ(started.status, static_cast<std::uint64_t>(ErrorCode::kInvalidArgument)) << c.name;
    EXPECT_THAT(started.text, HasSubstr(c.part)) << c.name;
    EXPECT_EQ(world.node().gauges(world.now).total_slots, 0u) << c.name;
  }
}

TEST_F(PutTest, Put_id_in_use_is_refused) {
  const auto started = world.put_start(client, row, keys(1, 1));
  EXPECT_THAT(world.put_start(client, row, keys(2, 1), {.put = started.put}).text,
              HasSubstr("put id is in use"));
}

TEST_F(PutTest, Largest_put_is_taken) {
  NodeWorld::Options options;
  options.capacity = 512 * kMiB;
  options.config.prepared_cap_bytes = 512 * kMiB;
  NodeWorld big(options);
  const ClientId c = big.attach();
  const NamespaceRow r = big.open(c);
  big.put(c, r, keys(1, 65'535));
  EXPECT_EQ(big.found(r, keys(1, 65'535)), 65'535u);
}

TEST_F(PutTest, Cap_of_prepared_bytes_stops_the_rest_of_the_put) {
  NodeWorld::Options options;
  options.config.prepared_cap_bytes = 6 * 4'096;
  NodeWorld small(options);
  const ClientId c = small.attach("greedy");
  const NamespaceRow r = small.open(c);
  const auto started = small.put_start(c, r, keys(1, 9), {.groups = {4, 3, 1, 1}});
  EXPECT_THAT(started.outcomes,
              ElementsAre(Outcome::kPrepared, Outcome::kPrepared, Outcome::kPrepared,
                          Outcome::kPrepared, Outcome::kOverQuota, Outcome::kOverQuota,
                          Outcome::kOverQuota, Outcome::kOverQuota, Outcome::kOverQuota));
  EXPECT_THAT(started.text,
              HasSubstr("over quota: client 'greedy' (1) holds 16.0 KiB prepared in 1"));
  EXPECT_THAT(small.commit(c, started), Each(Outcome::kStored));
  EXPECT_THAT(small.put_start(c, r, keys(5, 5)).outcomes, Each(Outcome::kPrepared))
      << "committed memory is not prepared memory";
}

TEST_F(PutTest, Number_of_open_puts_is_bounded) {
  NodeWorld::Options options;
  options.capacity = 64 * kMiB;
  options.config.prepared_cap_bytes = 64 * kMiB;
  NodeWorld big(options);
  const ClientId c = big.attach();
  const NamespaceRow r = big.open(c);
  for (std::uint64_t i = 0; i < kMaxHeldPuts; ++i)
    ASSERT_THAT(big.put_start(c, r, {key(i)}).outcomes, ElementsAre(Outcome::kPrepared));
  const auto over = big.put_start(c, r, {key(100'000)});
  EXPECT_THAT(over.outcomes, ElementsAre(Outcome::kOverQuota));
  EXPECT_THAT(over.text, HasSubstr("4,096 open puts"));
}

TEST_F(PutTest, Abort_frees_everything_and_may_be_repeated) {
  const auto started = world.put_start(client, row, keys(1, 4), {.groups = {2, 2}});
  world.abort(client, started.put);
  EXPECT_EQ(world.effects().answers[0].status, kStatusOk);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  world.abort(client, started.put);
  EXPECT_EQ(world.effects().answers[0].status, kStatusOk);
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kEvicted));
  EXPECT_THAT(world.put_start(client, row, keys(1, 4)).outcomes, Each(Outcome::kPrepared));
}

TEST_F(PutTest, Abort_of_a_foreign_put_is_refused) {
  const ClientId other = world.attach();
  const auto started = world.put_start(client, row, keys(1, 4));
  world.abort(other, started.put);
  EXPECT_NE(world.effects().answers[0].status, kStatusOk);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 4u);
}

TEST_F(PutTest, Generation_grows_at_every_reuse) {
  const auto first = world.put_start(client, row, {key(1)});
  world.abort(client, first.put);
  const auto second = world.put_start(client, row, {key(2)});
  EXPECT_EQ(second.grants[0].slot, first.grants[0].slot);
  EXPECT_EQ(second.grants[0].generation, first.grants[0].generation + 1);
}

TEST_F(PutTest, Rows_hold_what_recovery_and_eviction_need) {
  const auto root = world.put(client, row, {key(1)});
  const auto started =
      world.put_start(client, row, keys(2, 3), {.groups = {2, 1}, .parent = key(1)});
  const auto fields = [&](int i) {
    return world.area()
        .slot(SlotId{started.grants[static_cast<std::size_t>(i)].slot})
        .load_fields();
  };
  EXPECT_EQ(fields(0).group.parent.value, root.grants[0].slot);
  EXPECT_EQ(fields(0).group.parent_generation, root.grants[0].generation);
  EXPECT_EQ(fields(1).group.index, 1);
  EXPECT_EQ(fields(1).group.length, 2);
  EXPECT_EQ(fields(2).group.group_number, 1);
  EXPECT_EQ(fields(2).group.parent.value, started.grants[1].slot) << "the key before the group";
  EXPECT_EQ(fields(2).put, started.put);
  EXPECT_EQ(fields(2).value_len, 4'096u);
  EXPECT_EQ(fields(2).key, key(4));
}

TEST_F(PutTest, Parent_of_a_new_key_is_the_key_that_exists_before_it) {
  const auto old = world.put(client, row, {key(1)});
  const auto started = world.put_start(client, row, keys(1, 2));
  const auto fields = world.area().slot(SlotId{started.grants[1].slot}).load_fields();
  EXPECT_EQ(fields.group.parent.value, old.grants[0].slot);
}

TEST_F(PutTest, Index_grows_during_traffic) {
  const std::uint64_t small = world.node().gauges(world.now).index_buckets;
  for (std::uint64_t i = 0; i < 50; ++i) {
    world.put(client, row, keys(i * 8, 8));
    world.background();
  }
  EXPECT_GT(world.node().gauges(world.now).index_buckets, small);
  EXPECT_EQ(world.found(row, keys(0, 400)), 400u);
}

TEST_F(PutTest, Counters_and_gauges_reconcile) {
  world.put(client, row, keys(1, 5));
  const auto open = world.put_start(client, row, keys(1, 7));
  const NodeGauges g = world.node().gauges(world.now);
  EXPECT_EQ(g.slots_by_state[0] + g.slots_by_state[1] + g.slots_by_state[2] + g.slots_by_state[3] +
                g.slots_by_state[4],
            g.total_slots);
  EXPECT_EQ(g.resident_bytes, 5u * 4'096);
  EXPECT_EQ(g.prepared_bytes, 2u * 4'096);
  EXPECT_EQ(g.open_puts, 1u);
  const NodeCounters& c = world.node().counters();
  EXPECT_EQ(c.put_starts, 2u);
  EXPECT_EQ(c.keys_offered, 12u);
  EXPECT_EQ(c.outcomes[static_cast<int>(Outcome::kExists)], 5u);
  EXPECT_EQ(c.outcomes[static_cast<int>(Outcome::kStored)], 5u);
  world.now += kNsPerSecond;
  const auto clients = world.node().clients(world.now);
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].prepared_slots, 2u);
  EXPECT_EQ(clients[0].oldest_put_age, kNsPerSecond);
  EXPECT_EQ(world.node().namespaces()[0].slots, 5u);
}

}  // namespace
}  // namespace orlop::protocol
