// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/node_fixture.h"
#include "segment/missed_ring.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 32 slabs of 16 slots.
constexpr std::uint64_t kSlots = 512;

class EvictTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach("first");
  NamespaceRow row = world.open(client);

  SlotId slot_of(std::uint64_t k) const { return world.find(row, key(k)); }
  void fill(std::uint64_t from = 0, std::uint64_t count = kSlots) {
    for (std::uint64_t i = 0; i < count; i += 8)
      world.put(client, row, keys(from + i, std::min<std::uint64_t>(8, count - i)));
  }
};

TEST_F(EvictTest, Full_pool_evicts_the_oldest_for_a_new_put) {
  fill();
  world.put(client, row, keys(1'000, 8));
  EXPECT_EQ(world.in_state(SlotState::kCommitted), kSlots - world.in_state(SlotState::kFree));
  EXPECT_EQ(world.found(row, keys(1'000, 8)), 8u);
  EXPECT_EQ(world.found(row, keys(0, 8)), 0u);
  EXPECT_EQ(world.found(row, keys(8, kSlots - 8)), kSlots - 8);
  const NodeCounters& c = world.node().counters();
  EXPECT_EQ(c.groups_freed, 8u);
  EXPECT_EQ(c.slots_evicted, 8u);
  EXPECT_EQ(c.bytes_evicted, 8u * 4'096);
}

TEST_F(EvictTest, Touched_pages_stay) {
  fill();
  for (std::uint64_t k = 0; k < 8; ++k) world.touch(client, slot_of(k));
  world.put(client, row, keys(1'000, 8));
  EXPECT_EQ(world.found(row, keys(0, 8)), 8u);
  EXPECT_EQ(world.found(row, keys(8, 8)), 0u);
  EXPECT_EQ(world.node().counters().touches, 8u);
}

TEST_F(EvictTest, Forged_touches_do_no_harm) {
  fill(0, 16);
  for (const std::uint32_t slot : {0u, 500u, 0xffffffffu, 513u, 17u})
    world.touch(client, SlotId{slot});
  fill(16, kSlots - 16);
  world.put(client, row, keys(1'000, 8));
}

TEST_F(EvictTest, Overflow_of_the_touch_ring_is_counted) {
  fill();
  for (int i = 0; i < 1'030; ++i) world.touch(client, slot_of(0));
  world.put(client, row, keys(1'000, 8));
  EXPECT_EQ(world.node().counters().touches_lost, 6u);
  EXPECT_EQ(world.node().counters().touches, 1'024u);
}

TEST_F(EvictTest, Deeper_groups_leave_before_their_parents) {
  world.put(client, row, keys(0, 8));  // a chain: 0 is the root
  world.put(client, row, {key(8)}, {.parent = key(7)});
  fill(16, kSlots - 9);
  for (std::uint64_t k = 0; k < 3; ++k) {
    world.put(client, row, {key(2'000 + k)});
    EXPECT_EQ(world.found(row, keys(0, 9)), 8 - k) << "the tail goes first";
    EXPECT_TRUE(slot_of(0));
  }
}

TEST_F(EvictTest, Group_leaves_whole) {
  world.put(client, row, keys(0, 8), {.groups = {5, 3}});
  fill(16, kSlots - 8);
  world.put(client, row, {key(2'000)});
  EXPECT_EQ(world.found(row, keys(0, 8)), 5u) << "the deeper group of three is gone";
  EXPECT_EQ(world.in_state(SlotState::kFree), 2u);
}

TEST_F(EvictTest, Pinned_group_is_restored_whole_and_given_back_later) {
  world.put(client, row, keys(0, 4), {.groups = {4}});
  fill(16, kSlots - 4);
  const std::uint32_t cell = world.pin(client, slot_of(2));
  world.put(client, row, keys(2'000, 4));
  EXPECT_EQ(world.found(row, keys(0, 4)), 4u);
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 1u);
  EXPECT_EQ(world.node().counters().groups_restored, 1u);
  world.node().validate();
  // Nothing needs room: the maintenance scan alone gives it back.
  world.unpin(client, cell);
  EXPECT_NE(world.node().next_deadline(), kNever);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 0u);
  EXPECT_EQ(world.node().next_deadline(), kNever);
  // It came back as the most recent; in the end it can leave.
  fill(3'000, kSlots);
  EXPECT_EQ(world.found(row, keys(0, 4)), 0u);
}

TEST_F(EvictTest, Parent_of_a_pinned_child_stays_but_is_not_marked) {
  world.put(client, row, {key(0)});
  world.put(client, row, {key(1)}, {.parent = key(0)});
  fill(16, kSlots - 2);
  world.touch(client, slot_of(17));  // make the chain the oldest
  const std::uint32_t cell = world.pin(client, slot_of(1));
  world.put(client, row, keys(2'000, 8));
  EXPECT_EQ(world.found(row, keys(0, 2)), 2u);
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 1u);
  world.unpin(client, cell);
}

TEST_F(EvictTest, Cell_of_an_older_generation_pins_nothing) {
  fill();
  const SlotId slot = slot_of(0);
  world.channel(client).bitmap()[0].fetch_or(1);
  world.channel(client).cells()[0].store(
      segment::LedgerCell{slot, Generation{world.word(slot).generation.value - 1}}.pack());
  world.put(client, row, keys(2'000, 8));
  EXPECT_FALSE(slot_of(0));
}

TEST_F(EvictTest, Everything_pinned_answers_no_space_with_the_pools_state) {
  fill();
  const ClientId reader = world.attach("hoarder");
  for (std::uint64_t k = 0; k < kSlots; ++k) world.pin(reader, slot_of(k));
  const auto started = world.put_start(client, row, keys(2'000, 3));
  EXPECT_THAT(started.outcomes, Each(Outcome::kNoSpace));
  EXPECT_THAT(started.text, HasSubstr("0 of 512 slots free"));
  EXPECT_THAT(started.text, HasSubstr("resident 2.00 MiB, pinned 2.00 MiB"));
  EXPECT_THAT(started.text, HasSubstr("by client 'hoarder' (2): 2.00 MiB"));
  EXPECT_EQ(world.found(row, keys(0, kSlots)), kSlots);
  EXPECT_EQ(world.area().header().pin_cap_bytes.load(), world.geometry().value_bytes() / 4)
      << "half of the value area, divided by two clients";
}

TEST_F(EvictTest, Part_that_fits_is_given_in_order_of_groups) {
  fill();
  const ClientId reader = world.attach("hoarder");
  for (std::uint64_t k = 8; k < kSlots; ++k) world.pin(reader, slot_of(k));
  const auto started = world.put_start(client, row, keys(2'000, 10), {.groups = {3, 3, 3, 1}});
  auto expected = times(6, Outcome::kPrepared);
  expected.resize(10, Outcome::kNoSpace);
  EXPECT_EQ(started.outcomes, expected);
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kStored));
  EXPECT_EQ(world.in_state(SlotState::kFree), 2u);
}

TEST_F(EvictTest, Prepared_slots_are_never_taken) {
  const auto writer = world.put_start(client, row, keys(0, kSlots));
  ASSERT_THAT(writer.outcomes, Each(Outcome::kPrepared));
  EXPECT_THAT(world.put_start(client, row, keys(2'000, 1)).outcomes,
              ElementsAre(Outcome::kOverQuota));
  const ClientId other = world.attach();
  const auto started = world.put_start(other, row, keys(2'000, 1));
  EXPECT_THAT(started.outcomes, ElementsAre(Outcome::kNoSpace));
  EXPECT_THAT(started.text, HasSubstr("prepared 2.00 MiB"));
  world.now += 3'600 * kNsPerSecond;
  EXPECT_THAT(world.put_start(other, row, keys(2'000, 1)).outcomes, ElementsAre(Outcome::kNoSpace))
      << "no time limit frees the memory of a living writer";
  EXPECT_THAT(world.commit(client, writer), Each(Outcome::kStored));
}

TEST_F(EvictTest, Released_pins_are_found_within_one_put) {
  fill();
  std::vector<std::uint32_t> cells;
  for (std::uint64_t k = 0; k < kSlots; ++k) cells.push_back(world.pin(client, slot_of(k)));
  EXPECT_THAT(world.put_start(client, row, keys(2'000, 1)).outcomes,
              ElementsAre(Outcome::kNoSpace));
  for (const std::uint32_t cell : cells) world.unpin(client, cell);
  world.now += 10 * kNsPerMs;
  world.put(client, row, keys(2'000, 8));
}

TEST_F(EvictTest, Pin_cap_is_lifted_when_pins_are_few) {
  fill();
  world.put(client, row, keys(2'000, 8));
  EXPECT_EQ(world.area().header().pin_cap_bytes.load(), 2 * kMiB);
}

TEST_F(EvictTest, Pins_are_metered_per_client) {
  fill(0, 8);
  world.pin(client, slot_of(0));
  world.pin(client, slot_of(1));
  world.node().read_clients(world.now);
  const auto clients = world.node().clients(world.now);
  EXPECT_EQ(clients[0].pinned_cells, 2u);
  EXPECT_EQ(clients[0].pinned_bytes, 2u * 4'096);
  EXPECT_FALSE(clients[0].over_pin_budget);
}

// ---- reserve ----

class ReserveTest : public EvictTest {
 protected:
  static NodeWorld::Options with_reserve(std::uint64_t slots) {
    NodeWorld::Options options;
    options.config.reserve_bytes = slots * 4'096;
    return options;
  }
};

TEST_F(ReserveTest, Refill_keeps_exactly_the_reserve_free) {
  NodeWorld reserved(with_reserve(100));
  const ClientId c = reserved.attach();
  const NamespaceRow r = reserved.open(c);
  for (std::uint64_t i = 0; i < 1'000; i += 5) {
    reserved.put(c, r, keys(i, 5));
    reserved.background();
    if (i >= kSlots) {
      ASSERT_EQ(reserved.in_state(SlotState::kCommitted), kSlots - 100) << i;
    }
  }
  EXPECT_EQ(reserved.node().gauges(reserved.now).resident_bytes, (kSlots - 100) * 4'096);
  EXPECT_EQ(reserved.found(r, keys(590, 410)), 410u)
      << "the most recent ones are the resident ones, and two roots of the put before";
}

TEST_F(ReserveTest, Put_larger_than_the_reserve_evicts_what_it_lacks) {
  NodeWorld reserved(with_reserve(10));
  const ClientId c = reserved.attach();
  const NamespaceRow r = reserved.open(c);
  for (std::uint64_t i = 0; i < kSlots; i += 8) {
    reserved.put(c, r, keys(i, 8));
    reserved.background();
  }
  reserved.put(c, r, keys(5'000, 50));
  EXPECT_LE(reserved.node().gauges(reserved.now).resident_bytes / 4'096, kSlots);
  reserved.background();
  EXPECT_EQ(reserved.in_state(SlotState::kCommitted), kSlots - 10);
}

TEST_F(ReserveTest, Background_work_ends_when_all_is_pinned) {
  NodeWorld reserved(with_reserve(10));
  const ClientId c = reserved.attach();
  const NamespaceRow r = reserved.open(c);
  for (std::uint64_t i = 0; i < kSlots; i += 8) {
    reserved.put(c, r, keys(i, 8));
    for (std::uint64_t k = i; k < i + 8; ++k) reserved.pin(c, reserved.find(r, key(k)));
    reserved.background();
  }
  EXPECT_EQ(reserved.in_state(SlotState::kCommitted), kSlots);
  EXPECT_FALSE(reserved.node().wants_background());
  EXPECT_GT(reserved.node().gauges(reserved.now).pinned_groups, 0u);
}

// ---- waiting ----

class WaitTest : public EvictTest {
 protected:
  ClientId reader;
  std::vector<std::uint32_t> cells;

  void SetUp() override {
    fill();
    reader = world.attach("reader");
    for (std::uint64_t k = 0; k < kSlots; ++k) cells.push_back(world.pin(reader, slot_of(k)));
  }
  NodeWorld::Started wait_for(std::uint64_t first, std::uint64_t count, MonoNs wait) {
    return world.put_start(client, row, keys(first, count), {.wait = wait});
  }
};

TEST_F(WaitTest, Waiting_put_gets_memory_when_pins_go) {
  const auto started = wait_for(2'000, 2, 200 * kNsPerMs);
  EXPECT_FALSE(started.answered);
  const RequestId request = world.last_put_request();
  EXPECT_EQ(world.node().gauges(world.now).waiting_puts, 1u);
  EXPECT_EQ(world.node().next_deadline(), world.now + 10 * kNsPerMs) << "not more than 10 ms";
  world.unpin(reader, cells[6]);  // the tail of the first put's chain
  world.unpin(reader, cells[7]);
  world.now = world.node().next_deadline();
  world.tick();
  const auto answer = world.read_answer(started.put, request);
  ASSERT_TRUE(answer.answered);
  EXPECT_THAT(answer.outcomes, Each(Outcome::kPrepared));
  EXPECT_THAT(world.commit(client, answer), Each(Outcome::kStored));
  EXPECT_EQ(world.node().gauges(world.now).waiting_puts, 0u);
  EXPECT_EQ(world.node().counters().space_waits, 1u);
}

TEST_F(WaitTest, Deadline_answers_no_space) {
  const auto started = wait_for(2'000, 2, 3 * kNsPerMs);
  EXPECT_EQ(world.node().next_deadline(), world.now + 3 * kNsPerMs);
  world.now += 3 * kNsPerMs - 1;
  world.tick();
  EXPECT_TRUE(world.effects().answers.empty());
  world.now += 1;
  world.tick();
  const auto answer = world.read_answer(started.put, world.last_put_request());
  EXPECT_THAT(answer.outcomes, Each(Outcome::kNoSpace));
  EXPECT_THAT(answer.text, HasSubstr("no space"));
}

TEST_F(WaitTest, Freed_memory_serves_waiters_at_once_and_in_order) {
  const auto first = wait_for(2'000, 2, 10 * kNsPerMs);
  const RequestId first_request = world.last_put_request();
  const auto second = wait_for(3'000, 1, 10 * kNsPerMs);
  const RequestId second_request = world.last_put_request();
  ASSERT_FALSE(second.answered);
  const auto gone = keys(0, 2);
  world.unpin(reader, cells[0]);
  world.step(event::Remove{client, world.next_request(), row, gone});
  world.effects().clear();
  while (world.node().wants_background()) world.node().run_background(world.now, world.effects());
  // Slot 1 is still pinned: one is free, the first waiter needs two, the second waits behind it.
  EXPECT_FALSE(world.read_answer(first.put, first_request).answered);
  EXPECT_FALSE(world.read_answer(second.put, second_request).answered);
  world.unpin(reader, cells[1]);
  world.now += 10 * kNsPerMs;
  world.tick();
  const auto a = world.read_answer(first.put, first_request);
  EXPECT_THAT(a.outcomes, Each(Outcome::kPrepared));
  EXPECT_THAT(world.read_answer(second.put, second_request).outcomes,
              ElementsAre(Outcome::kNoSpace));
}

TEST_F(WaitTest, Abort_of_a_waiting_put_answers_it_once) {
  const auto started = wait_for(2'000, 2, 10 * kNsPerMs);
  const RequestId request = world.last_put_request();
  world.abort(client, started.put);
  EXPECT_THAT(world.read_answer(started.put, request).outcomes, Each(Outcome::kAborted));
  EXPECT_EQ(world.effects().answers.size(), 2u);
  EXPECT_EQ(world.node().gauges(world.now).waiting_puts, 0u);
}

TEST_F(WaitTest, Lost_client_waits_no_more_and_gets_nothing) {
  wait_for(2'000, 2, 10 * kNsPerMs);
  world.step(event::ClientLost{client});
  EXPECT_TRUE(world.effects().answers.empty());
  EXPECT_EQ(world.node().gauges(world.now).waiting_puts, 0u);
}

TEST_F(WaitTest, Flush_under_a_waiting_put_answers_flushed) {
  const auto started = wait_for(2'000, 2, 10 * kNsPerMs);
  const RequestId request = world.last_put_request();
  world.step(event::Flush{client, world.next_request(), row, false});
  world.now += 10 * kNsPerMs;
  world.tick();
  EXPECT_THAT(world.read_answer(started.put, request).outcomes, Each(Outcome::kFlushed));
}

TEST_F(WaitTest, Put_whose_keys_all_exist_does_not_wait) {
  wait_for(2'000, 2, 10 * kNsPerMs);
  const auto started = wait_for(0, 2, 10 * kNsPerMs);
  EXPECT_THAT(started.outcomes, Each(Outcome::kExists));
}

TEST_F(WaitTest, Scans_for_an_unsatisfied_claim_are_spaced) {
  const std::uint64_t before = world.node().counters().scans;
  wait_for(2'000, 1, 10 * kNsPerMs);
  const std::uint64_t first = world.node().counters().scans;
  EXPECT_GT(first, before);
  for (int i = 0; i < 9; ++i) {
    world.now += kNsPerMs;
    world.tick();
  }
  EXPECT_EQ(world.node().counters().scans, first);
}

TEST_F(WaitTest, Queue_is_bounded) {
  for (std::uint64_t i = 0; i < 256; ++i)
    ASSERT_FALSE(wait_for(2'000 + i, 1, 10 * kNsPerMs).answered);
  EXPECT_THAT(wait_for(9'000, 1, 10 * kNsPerMs).outcomes, ElementsAre(Outcome::kNoSpace));
  world.now += 10 * kNsPerMs;
  world.tick();
  EXPECT_EQ(world.effects().answers.size(), 256u);
}

// ---- classes ----

class ClassTest : public EvictTest {};

TEST_F(ClassTest, Starving_class_takes_the_coldest_slab_of_another) {
  fill();
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  world.now += 60 * kNsPerSecond;
  // Everything but one slab's worth was used lately.
  for (std::uint64_t k = 0; k < kSlots; ++k) {
    if (k < 160 || k >= 176) world.touch(client, slot_of(k));
  }
  const auto started = world.put(client, large, keys(5'000, 3));
  EXPECT_EQ(world.found(row, keys(160, 16)), 0u) << "the coldest slab's pages left";
  EXPECT_EQ(world.found(row, keys(0, kSlots)), kSlots - 16);
  EXPECT_EQ(world.node().gauges(world.now).total_slots, kSlots - 16 + 4);
  EXPECT_EQ(world.area().slot(SlotId{started.grants[0].slot}).load_value_len(), 16u * 1'024);
}

// What was missed before its page was put did not miss because the page then left.
TEST_F(ClassTest, Missed_keys_are_looked_at_before_a_slab_is_taken) {
  const ClientId reader = world.attach("reader");
  segment::write_missed(world.channel(reader), {key(160), row});
  fill();
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  world.now += 60 * kNsPerSecond;
  for (std::uint64_t k = 0; k < kSlots; ++k) {
    if (k < 160 || k >= 176) world.touch(client, slot_of(k));
  }
  world.put(client, large, keys(5'000, 3));
  ASSERT_FALSE(world.find(row, key(160)));
  world.node().read_clients(world.now);
  const auto& missed = world.node().counters().missed;
  EXPECT_EQ(missed[static_cast<std::size_t>(MissCause::kEvicted)], 0u);
  EXPECT_EQ(missed[static_cast<std::size_t>(MissCause::kNeverWritten)], 1u);
}

TEST_F(ClassTest, Class_prefers_its_own_victims) {
  fill(0, kSlots - 16);
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  world.put(client, large, keys(5'000, 4));
  world.put(client, large, keys(6'000, 2));
  EXPECT_EQ(world.found(row, keys(0, kSlots - 16)), kSlots - 16);
  EXPECT_EQ(world.found(large, keys(5'000, 4)), 2u);
}

TEST_F(ClassTest, Slab_with_pinned_or_prepared_slots_is_not_taken) {
  fill();
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  for (std::uint64_t k = 0; k < kSlots; k += 16) world.pin(client, slot_of(k));
  EXPECT_THAT(world.put_start(client, large, keys(5'000, 1)).outcomes,
              ElementsAre(Outcome::kNoSpace));
  world.node().validate();
}

TEST_F(ClassTest, Wholly_free_slab_is_taken_at_once) {
  fill(0, kSlots - 16);
  const auto open = world.put_start(client, row, keys(3'000, 16));
  world.abort(client, open.put);
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  world.put(client, large, keys(5'000, 4));
  EXPECT_EQ(world.node().counters().slots_evicted, 0u);
}

TEST_F(ClassTest, Value_of_a_whole_slab_and_of_one_byte_live_together) {
  const NamespaceRow tiny = world.open(client, 1, "tiny");
  const NamespaceRow huge = world.open(client, 64 * 1'024, "huge");
  world.put(client, tiny, keys(1, 20));
  world.put(client, huge, keys(1, 20));
  EXPECT_EQ(world.found(tiny, keys(1, 20)) + world.found(huge, keys(1, 20)), 40u);
}

TEST_F(ClassTest, Group_with_members_in_two_slabs_leaves_whole) {
  world.put(client, row, keys(0, 10));
  world.put(client, row, keys(100, 12), {.groups = {12}});  // runs over a slab's end
  fill(200, kSlots - 22);
  const NamespaceRow large = world.open(client, 16 * 1'024, "large");
  for (int i = 0; i < 4; ++i) {
    world.put(client, large, keys(5'000 + 10ULL * static_cast<unsigned>(i), 4));
    const std::size_t found = world.found(row, keys(100, 12));
    EXPECT_TRUE(found == 0 || found == 12);
    world.node().validate();
  }
}

}  // namespace
}  // namespace orlop::protocol
