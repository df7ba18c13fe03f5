// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/inspect.h"

#include <set>

#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <class States>
std::uint64_t of_state(const States& states, SlotState state) {
  return states.slots[static_cast<int>(state)];
}

class InspectTest : public ::testing::Test {
 protected:
  template <class Answer, class Question>
  Answer ask(const Question& question) {
    const InspectAnswer answer = world.node().inspect(question, world.now);
    const auto* found = std::get_if<Answer>(&answer);
    EXPECT_NE(found, nullptr) << refusal(answer);
    return found == nullptr ? Answer{} : *found;
  }
  template <class Question>
  std::string refused(const Question& question) {
    return refusal(world.node().inspect(question, world.now));
  }
  static std::string refusal(const InspectAnswer& answer) {
    const auto* error = std::get_if<Error>(&answer);
    return error == nullptr ? "no error" : error->message;
  }
  KeyFacts about(const KeyId& of) { return ask<KeyFacts>(question::Key{ns, of}); }

  NodeWorld world;
  const ClientId client = world.attach("writer");
  const NamespaceRow ns = world.open(client);
};

// ---- sums ----

TEST_F(InspectTest, Sums_name_every_slot_of_every_class_and_namespace) {
  const NamespaceRow big = world.open(client, 10'000, "other");
  world.put(client, ns, keys(1, 20));
  world.put(client, big, keys(1, 3));
  world.put_start(client, big, keys(100, 2));
  const auto sums = ask<SlotSums>(question::SlotSums{});
  EXPECT_FALSE(sums.next.has_value());
  ASSERT_THAT(sums.classes, SizeIs(2));
  EXPECT_EQ(sums.classes[0].slot_pages, 1u);
  EXPECT_EQ(of_state(sums.classes[0], SlotState::kCommitted), 20u);
  EXPECT_EQ(sums.classes[1].slot_pages, 3u);
  EXPECT_EQ(of_state(sums.classes[1], SlotState::kCommitted), 3u);
  EXPECT_EQ(of_state(sums.classes[1], SlotState::kPrepared), 2u);
  ASSERT_THAT(sums.namespaces, SizeIs(2));
  EXPECT_EQ(sums.namespaces[0].row, ns);
  EXPECT_EQ(sums.namespaces[0].slot_bytes, 20 * 4'096u);
  EXPECT_EQ(sums.namespaces[1].row, big);
  EXPECT_EQ(sums.namespaces[1].slot_bytes, 5 * 12'288u);
  EXPECT_EQ(sums.namespaces[1].value_bytes, 5 * 10'000u);

  const NodeGauges gauges = world.node().gauges(world.now);
  EXPECT_EQ(sums.common_slabs, gauges.common_slabs);
  std::uint64_t all = 0;
  for (int state = 0; state < segment::kSlotStateCount; ++state) {
    std::uint64_t in_state = 0;
    for (const auto& size_class : sums.classes) in_state += size_class.slots[state];
    EXPECT_EQ(in_state, gauges.slots_by_state[state]) << state;
    all += in_state;
  }
  EXPECT_EQ(all, gauges.total_slots);
}

TEST_F(InspectTest, Free_runs_tell_how_scattered_memory_is) {
  world.put(client, ns, keys(1, 16));  // one slab of 16 slots
  const SlotId first = world.find(ns, key(1));
  ASSERT_EQ(world.geometry().ordinal_of(first), 0u);
  // Free slots 2, 3 and 9 of the slab.
  world.step(event::Remove{client, world.next_request(), ns, std::vector{key(2), key(3), key(9)}});
  world.background();
  const auto sums = ask<SlotSums>(question::SlotSums{});
  ASSERT_THAT(sums.classes, SizeIs(1));
  EXPECT_EQ(sums.classes[0].slabs, 1u);
  EXPECT_EQ(sums.classes[0].free_runs, 2u);
  EXPECT_EQ(sums.classes[0].longest_free_run, 2u);
  EXPECT_EQ(sums.classes[0].unused_slabs, 0u);
}

TEST_F(InspectTest, Doomed_slots_of_flushed_namespaces_belong_to_no_row) {
  world.put(client, ns, keys(1, 4));
  world.pin(client, world.find(ns, key(2)));
  world.step(event::Flush{client, world.next_request(), ns, false});
  world.background();
  const auto sums = ask<SlotSums>(question::SlotSums{});
  ASSERT_THAT(sums.namespaces, SizeIs(1));
  EXPECT_FALSE(sums.namespaces[0].row.has_value());
  EXPECT_EQ(sums.namespaces[0].doomed, 1u);
  EXPECT_EQ(of_state(sums.namespaces[0], SlotState::kRetiring), 1u);
}

TEST(Inspect, Sums_of_a_large_node_come_in_bounded_answers) {
  NodeWorld::Options options;
  options.capacity = 256 * kMiB;  // 65,536 slots of 4 KiB
  options.max_value_len = 4'096;
  options.config.prepared_cap_bytes = 256 * kMiB;
  NodeWorld world(options);
  const ClientId client = world.attach();
  const NamespaceRow ns = world.open(client);
  world.put(client, ns, keys(1, 60'000));
  std::uint64_t committed = 0, slabs = 0, answers = 0;
  for (std::optional<SlabId> from = SlabId{0}; from; ++answers) {
    const auto answer = world.node().inspect(question::SlotSums{*from}, world.now);
    const auto& sums = std::get<SlotSums>(answer);
    std::uint64_t looked_at = 0;
    for (const auto& size_class : sums.classes) {
      committed += of_state(size_class, SlotState::kCommitted);
      slabs += size_class.slabs;
      for (const std::uint64_t slots : size_class.slots) looked_at += slots;
    }
    EXPECT_LE(looked_at, kInspectSlots + world.geometry().ordinals_per_slab);
    slabs += sums.common_slabs;
    ASSERT_TRUE(!sums.next || *sums.next > *from);
    from = sums.next;
  }
  EXPECT_EQ(committed, 60'000u);
  EXPECT_EQ(slabs, world.geometry().slab_count);
  EXPECT_GE(answers, 4u);
}

// ---- lists ----

TEST_F(InspectTest, List_goes_on_where_it_stopped_and_names_every_slot_once) {
  world.put(client, ns, keys(1, 40));
  const NamespaceRow other = world.open(client, 4'096, "other");
  world.put(client, other, keys(1, 5));
  std::set<std::uint32_t> seen;
  std::optional<SlotId> after = SlotId{};
  for (unsigned answers = 0; after; ++answers) {
    ASSERT_LT(answers, 50u);
    const auto list = ask<SlotList>(question::SlotList{.after = *after, .row = ns, .limit = 7});
    EXPECT_LE(list.slots.size(), 7u);
    for (const SlotFacts& facts : list.slots) {
      EXPECT_TRUE(seen.insert(facts.slot.value).second);
      EXPECT_EQ(facts.row, ns);
      EXPECT_EQ(world.find(ns, facts.fields.key), facts.slot);
    }
    after = list.next;
  }
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_THAT(ask<SlotList>(question::SlotList{}).slots, SizeIs(45));
}

TEST_F(InspectTest, List_is_limited_whatever_was_asked) {
  world.put(client, ns, keys(1, 400));
  EXPECT_THAT(ask<SlotList>(question::SlotList{.limit = ~0u}).slots, SizeIs(kInspectRows));
  EXPECT_THAT(ask<SlotList>(question::SlotList{.limit = 0}).slots, SizeIs(1));
}

// ---- one key ----

TEST_F(InspectTest, Key_tells_slot_group_parent_writer_and_access) {
  world.put(client, ns, keys(1, 2), {.groups = {2}});
  world.put(client, ns, {key(3), key(4)}, {.groups = {2}, .parent = key(2)});
  world.now += 9 * kNsPerSecond;
  const KeyFacts facts = about(key(4));
  ASSERT_TRUE(facts.slot.has_value());
  EXPECT_EQ(facts.slot->slot, world.find(ns, key(4)));
  EXPECT_EQ(facts.slot->word.state, SlotState::kCommitted);
  EXPECT_EQ(facts.slot->fields.group.index, 1);
  EXPECT_EQ(facts.slot->fields.value_len, 4'096u);
  EXPECT_EQ(facts.slot->checksum, world.area().slot(facts.slot->slot).load_checksum());
  EXPECT_EQ(facts.slot->since_access, 8 * kNsPerSecond);
  EXPECT_THAT(facts.members, ElementsAre(world.find(ns, key(3)), world.find(ns, key(4))));
  EXPECT_EQ(facts.member_count, 2u);
  ASSERT_TRUE(facts.parent.has_value());
  EXPECT_TRUE(facts.parent->present);
  EXPECT_EQ(facts.parent->key, key(2));
  EXPECT_EQ(facts.writer, client);
  EXPECT_EQ(facts.writer_name, "writer");
  EXPECT_EQ(facts.put_age, 0u);
  EXPECT_THAT(facts.holders.clients, IsEmpty());
  EXPECT_FALSE(about(key(1)).parent.has_value());
}

TEST_F(InspectTest, Key_being_written_is_told_with_the_age_of_its_put) {
  world.put_start(client, ns, {key(1)});
  world.now += 3 * kNsPerSecond;
  const KeyFacts facts = about(key(1));
  ASSERT_TRUE(facts.slot.has_value());
  EXPECT_EQ(facts.slot->word.state, SlotState::kPrepared);
  EXPECT_EQ(facts.put_age, 3 * kNsPerSecond);
}

TEST_F(InspectTest, Parent_that_left_is_not_present) {
  world.put(client, ns, {key(1)});
  world.put(client, ns, {key(2)}, {.parent = key(1)});
  world.step(event::Remove{client, world.next_request(), ns, std::vector{key(1)}});
  world.background();
  const KeyFacts facts = about(key(2));
  ASSERT_TRUE(facts.parent.has_value());
  EXPECT_FALSE(facts.parent->present);
}

TEST_F(InspectTest, Readers_of_a_key_are_named_with_their_pages) {
  world.put(client, ns, keys(1, 2));
  const ClientId reader = world.attach("reader");
  world.pin(reader, world.find(ns, key(1)));
  world.pin(reader, world.find(ns, key(1)));
  world.pin(client, world.find(ns, key(2)));
  const KeyFacts facts = about(key(1));
  ASSERT_THAT(facts.holders.clients, SizeIs(1));
  EXPECT_EQ(facts.holders.clients[0].client, reader);
  EXPECT_EQ(facts.holders.clients[0].name, "reader");
  EXPECT_EQ(facts.holders.clients[0].pages, 2u);
  EXPECT_FALSE(facts.holders.next.has_value());
  world.step(event::ClientDied{reader, false});
  EXPECT_THAT(about(key(1)).holders.clients, IsEmpty());
}

TEST_F(InspectTest, Absent_key_says_which_ranks_have_it) {
  const NamespaceRow rank1 = world.open(client, 4'096, "model", 1);
  const NamespaceRow stranger = world.open(client, 4'096, "other");
  world.put(client, rank1, {key(1)});
  world.put(client, stranger, {key(1)});
  const KeyFacts facts = about(key(1));
  EXPECT_FALSE(facts.slot.has_value());
  EXPECT_THAT(facts.also_in, ElementsAre(rank1));
  EXPECT_THAT(about(key(2)).also_in, IsEmpty());
}

TEST_F(InspectTest, Key_that_left_says_why_and_when) {
  world.put(client, ns, {key(1)});
  EXPECT_FALSE(about(key(1)).left.has_value());
  world.step(event::Remove{client, world.next_request(), ns, std::vector{key(1)}});
  world.now += 7 * kNsPerSecond;
  const KeyFacts facts = about(key(1));
  EXPECT_FALSE(facts.slot.has_value());
  ASSERT_TRUE(facts.left.has_value());
  EXPECT_EQ(facts.left->cause, MissCause::kRemoved);
  EXPECT_EQ(facts.left->age, 7 * kNsPerSecond);
  EXPECT_FALSE(about(key(2)).left.has_value());
}

// The index of the namespace is another one since the flush.
TEST_F(InspectTest, Flushed_key_says_so_before_and_after_its_memory_is_given_back) {
  world.put(client, ns, keys(1, 2));
  world.step(event::Flush{client, world.next_request(), ns, false});
  world.now += 5 * kNsPerSecond;
  for (const bool given_back : {false, true}) {
    if (given_back) world.background();
    const KeyFacts facts = about(key(1));
    EXPECT_FALSE(facts.slot.has_value());
    ASSERT_TRUE(facts.left.has_value()) << given_back;
    EXPECT_EQ(facts.left->cause, MissCause::kFlushed);
    EXPECT_EQ(facts.left->age, given_back ? 0 : 5 * kNsPerSecond);
    EXPECT_FALSE(about(key(3)).left.has_value());
  }
  // Put again and removed: the last cause counts.
  world.put(client, ns, {key(1)});
  world.step(event::Remove{client, world.next_request(), ns, std::vector{key(1)}});
  EXPECT_EQ(about(key(1)).left->cause, MissCause::kRemoved);
  EXPECT_EQ(about(key(2)).left->cause, MissCause::kFlushed);
}

TEST_F(InspectTest, Members_of_a_huge_group_are_cut_but_counted) {
  world.put(client, ns, keys(1, 300), {.groups = {300}});
  const KeyFacts facts = about(key(300));
  EXPECT_THAT(facts.members, SizeIs(kInspectRows));
  EXPECT_EQ(facts.member_count, 300u);
}

// ---- one client ----

TEST_F(InspectTest, Client_tells_puts_and_pages_it_holds) {
  world.put(client, ns, keys(1, 2));
  const ClientId reader = world.attach("reader");
  const auto open = world.put_start(reader, ns, keys(10, 3), {.groups = {1, 2}});
  world.now += 2 * kNsPerSecond;
  world.pin(reader, world.find(ns, key(2)));
  const auto facts = ask<ClientFacts>(question::Client{reader});
  EXPECT_EQ(facts.name, "reader");
  EXPECT_FALSE(facts.dead);
  EXPECT_EQ(facts.open_puts, 1u);
  ASSERT_THAT(facts.puts, SizeIs(1));
  EXPECT_EQ(facts.puts[0].put, open.put);
  EXPECT_EQ(facts.puts[0].row, ns);
  EXPECT_EQ(facts.puts[0].open_slots, 3u);
  EXPECT_EQ(facts.puts[0].open_groups, 2u);
  EXPECT_EQ(facts.puts[0].age, 2 * kNsPerSecond);
  EXPECT_EQ(facts.held.pages, 1u);
  EXPECT_EQ(facts.held.bytes, 4'096u);
  EXPECT_FALSE(facts.held.next.has_value());
  ASSERT_THAT(facts.held.by_row, SizeIs(1));
  EXPECT_EQ(facts.held.by_row[0].row, ns);
  ASSERT_THAT(facts.held.some, SizeIs(1));
  EXPECT_TRUE(facts.held.some[0].valid);
  EXPECT_EQ(facts.held.some[0].key, key(2));
}

TEST_F(InspectTest, Ledger_cells_that_name_nothing_are_shown_and_believed_in_nothing) {
  const ClientId liar = world.attach("liar");
  auto& cells = *world.channel(liar).cells();
  world.channel(liar).bitmap()[0].store(1);
  (&cells)[0].store(segment::LedgerCell{SlotId{0xffffffff}, Generation{1}}.pack());
  (&cells)[1].store(segment::LedgerCell{SlotId{3}, Generation{77}}.pack());
  const auto facts = ask<ClientFacts>(question::Client{liar});
  EXPECT_EQ(facts.held.pages, 2u);
  ASSERT_THAT(facts.held.some, SizeIs(2));
  EXPECT_FALSE(facts.held.some[0].valid || facts.held.some[1].valid);
  ASSERT_THAT(facts.held.by_row, SizeIs(1));
  EXPECT_FALSE(facts.held.by_row[0].row.has_value());
}

TEST_F(InspectTest, Dead_client_whose_fork_lives_holds_puts_only) {
  const ClientId forked = world.attach("forked");
  world.put_start(forked, ns, {key(1)});
  world.step(event::ClientDied{forked, true});
  const auto facts = ask<ClientFacts>(question::Client{forked});
  EXPECT_TRUE(facts.dead && facts.held_by_fork);
  EXPECT_EQ(facts.open_puts, 1u);
  EXPECT_EQ(facts.held.pages, 0u);
}

// ---- ledgers too large for one answer ----

class LargeLedgerTest : public InspectTest {
 protected:
  static constexpr std::uint32_t kCells = 200'000;
  // Every third cell holds the page, the others nothing.
  std::uint64_t pin_often(ClientId reader, SlotId slot) {
    const segment::ChannelView& channel = world.channel(reader);
    for (std::uint32_t w = 0; w < channel.bitmap_words(); ++w)
      channel.bitmap()[w].store(~std::uint64_t{0});
    std::uint64_t pins = 0;
    for (std::uint32_t cell = 0; cell < kCells; cell += 3, ++pins)
      channel.cells()[cell].store(segment::LedgerCell{slot, world.word(slot).generation}.pack());
    return pins;
  }
};

TEST_F(LargeLedgerTest, What_a_client_reads_comes_in_bounded_parts) {
  const NamespaceRow other = world.open(client, 4'096, "other");
  world.put(client, ns, keys(1, 2));
  world.put(client, other, {key(1)});
  const ClientId reader = world.attach("reader", kCells);
  const std::uint64_t pins = pin_often(reader, world.find(ns, key(1)));
  world.channel(reader).cells()[kCells - 1].store(
      segment::LedgerCell{world.find(other, key(1)), Generation{1}}.pack());
  Held all = ask<ClientFacts>(question::Client{reader}).held;
  unsigned parts = 1;
  for (; all.next; ++parts) {
    ASSERT_LT(parts, 100u);
    const auto part = ask<Held>(*all.next);
    EXPECT_LE(part.pages, kInspectCells);
    all.append(part);
  }
  EXPECT_GE(parts, kCells / kInspectCells);
  EXPECT_EQ(all.pages, pins + 1);
  EXPECT_EQ(all.bytes, (pins + 1) * 4'096);
  EXPECT_THAT(all.some, SizeIs(kInspectRows));
  ASSERT_THAT(all.by_row, SizeIs(2));
  EXPECT_EQ(all.by_row[0].row, ns);
  EXPECT_EQ(all.by_row[0].pages, pins);
  EXPECT_EQ(all.by_row[1].row, other);
  EXPECT_EQ(all.by_row[1].pages, 1u);
}

TEST_F(LargeLedgerTest, Readers_of_a_key_come_in_bounded_parts) {
  world.put(client, ns, {key(1)});
  const SlotId slot = world.find(ns, key(1));
  std::vector<ClientId> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(world.attach("reader", kCells));
  std::uint64_t pins = 0;
  for (const ClientId reader : readers) pins = pin_often(reader, slot);
  const ClientId last = world.attach("last");
  world.pin(last, slot);
  Holders all = about(key(1)).holders;
  unsigned parts = 1;
  for (; all.next; ++parts) {
    ASSERT_LT(parts, 100u);
    all.append(ask<Holders>(*all.next));
  }
  EXPECT_GE(parts, 3 * kCells / kHolderCells);
  ASSERT_THAT(all.clients, SizeIs(4));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all.clients[static_cast<std::size_t>(i)].client,
              readers[static_cast<std::size_t>(i)]);
    EXPECT_EQ(all.clients[static_cast<std::size_t>(i)].pages, pins);
  }
  EXPECT_EQ(all.clients[3].client, last);
  EXPECT_EQ(all.clients[3].pages, 1u);
}

TEST_F(LargeLedgerTest, A_client_that_dies_between_two_parts_ends_them) {
  world.put(client, ns, {key(1)});
  const ClientId reader = world.attach("reader", kCells);
  pin_often(reader, world.find(ns, key(1)));
  Held held = ask<ClientFacts>(question::Client{reader}).held;
  Holders holders = about(key(1)).holders;
  ASSERT_TRUE(held.next && holders.next);
  world.step(event::ClientDied{reader, false});
  held.append(ask<Held>(*held.next));
  holders.append(ask<Holders>(*holders.next));
  EXPECT_FALSE(held.next || holders.next);
}

TEST(HeldParts, Rows_of_parts_are_added_up_with_none_last) {
  Held all, part;
  all.by_row = {{NamespaceRow{2}, 1, 10}, {std::nullopt, 1, 1}};
  part.by_row = {{NamespaceRow{1}, 4, 40}, {NamespaceRow{2}, 2, 20}, {std::nullopt, 3, 3}};
  all.append(part);
  ASSERT_THAT(all.by_row, SizeIs(3));
  EXPECT_EQ(all.by_row[0].row, NamespaceRow{1});
  EXPECT_EQ(all.by_row[1].pages, 3u);
  EXPECT_EQ(all.by_row[1].bytes, 30u);
  EXPECT_EQ(all.by_row[2].row, std::nullopt);
  EXPECT_EQ(all.by_row[2].pages, 4u);
}

// ---- refusals ----

TEST_F(InspectTest, What_does_not_exist_is_refused_in_words) {
  EXPECT_THAT(refused(question::SlotSums{SlabId{32}}), HasSubstr("slab 32 does not exist"));
  EXPECT_THAT(refused(question::SlotList{.after = SlotId{0xffffffff}}),
              HasSubstr("slot 4294967295 does not exist"));
  EXPECT_THAT(refused(question::SlotList{.row = NamespaceRow{9}}), HasSubstr("row 9 is not open"));
  EXPECT_THAT(refused(question::Key{NamespaceRow{1'000'000}, key(1)}),
              HasSubstr("row 1000000 is not open"));
  EXPECT_THAT(refused(question::Client{ClientId{77}}), HasSubstr("no client has the id 77"));
}

}  // namespace
}  // namespace orlop::protocol
