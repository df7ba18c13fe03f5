// SPDX-License-Identifier: Apache-2.0
// remove, flush, mismatch reports, namespaces.
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RemoveTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach();
  NamespaceRow row = world.open(client);

  std::uint64_t remove(const std::vector<KeyId>& of) {
    const NodeAnswer* answer = world.step(event::Remove{client, world.next_request(), row, of});
    return answer->args[0];
  }
  std::uint64_t flush(NamespaceRow which, bool family = false) {
    const NodeAnswer* answer =
        world.step(event::Flush{client, world.next_request(), which, family});
    EXPECT_EQ(answer->status, kStatusOk);
    return answer->args[0];
  }
};

TEST_F(RemoveTest, Remove_takes_the_writers_whole_group) {
  world.put(client, row, keys(1, 5), {.groups = {3, 2}});
  EXPECT_EQ(remove({key(2), key(3), key(77)}), 3u);
  EXPECT_EQ(world.found(row, keys(1, 5)), 2u);
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 3u);
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
  EXPECT_EQ(world.node().counters().removed_slots, 3u);
}

TEST_F(RemoveTest, Removed_key_may_be_put_again_while_its_reader_goes_on) {
  const auto first = world.put(client, row, {key(1)});
  const SlotId slot{first.grants[0].slot};
  const std::uint32_t cell = world.pin(client, slot);
  remove({key(1)});
  const auto second = world.put(client, row, {key(1)});
  EXPECT_NE(second.grants[0].slot, slot.value);
  world.background();
  EXPECT_EQ(world.state(slot), SlotState::kRetiring);
  EXPECT_TRUE(world.word(slot).doomed());
  EXPECT_EQ(world.node().gauges(world.now).doomed_slots, 1u);
  world.unpin(client, cell);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.state(slot), SlotState::kFree);
}

TEST_F(RemoveTest, Remove_leaves_what_is_being_written) {
  const auto started = world.put_start(client, row, keys(1, 2));
  EXPECT_EQ(remove(keys(1, 2)), 0u);
  EXPECT_THAT(world.commit(client, started), Each(Outcome::kStored));
}

TEST_F(RemoveTest, Remove_of_a_pinned_group_that_was_marked) {
  const auto started = world.put(client, row, {key(1)});
  const std::uint32_t cell = world.pin(client, SlotId{started.grants[0].slot});
  for (std::uint64_t i = 0; i < 520; i += 8) world.put(client, row, keys(1'000 + i, 8));
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 1u);
  EXPECT_EQ(remove({key(1)}), 1u);
  EXPECT_EQ(world.node().gauges(world.now).pinned_groups, 0u);
  world.background();
  EXPECT_EQ(world.node().gauges(world.now).doomed_slots, 1u);
  world.node().validate();
  world.unpin(client, cell);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.node().gauges(world.now).doomed_slots, 0u);
}

TEST_F(RemoveTest, Remove_with_a_bad_row_is_refused) {
  const auto one = keys(1, 1);
  const NodeAnswer* answer =
      world.step(event::Remove{client, world.next_request(), NamespaceRow{9}, one});
  EXPECT_EQ(answer->status, static_cast<std::uint64_t>(ErrorCode::kInvalidArgument));
}

// ---- flush ----

TEST_F(RemoveTest, Flush_hides_everything_at_once_and_frees_it_in_slices) {
  world.put(client, row, keys(1, 40));
  const NamespaceIndex before = world.area().current_index(row);
  EXPECT_EQ(flush(row), 1u);
  EXPECT_NE(world.area().current_index(row), before);
  EXPECT_EQ(world.found(row, keys(1, 40)), 0u);
  EXPECT_TRUE(world.node().gauges(world.now).flush_pending);
  EXPECT_EQ(world.node().namespaces()[0].slots, 0u);
  world.node().validate();
  world.put(client, row, keys(1, 40));
  world.background();
  EXPECT_FALSE(world.node().gauges(world.now).flush_pending);
  EXPECT_EQ(world.in_state(SlotState::kCommitted), 40u);
  EXPECT_EQ(world.node().counters().flushed_slots, 40u);
}

TEST_F(RemoveTest, Flush_slices_are_bounded) {
  NodeWorld::Options options;
  options.config.flush_slice_slots = 10;
  NodeWorld small(options);
  const ClientId c = small.attach();
  const NamespaceRow r = small.open(c);
  small.put(c, r, keys(1, 100));
  small.background();
  small.step(event::Flush{c, small.next_request(), r, false});
  unsigned slices = 0;
  while (small.node().gauges(small.now).flush_pending && slices < 1'000) {
    const std::uint64_t before = small.node().counters().flushed_slots;
    small.effects().clear();
    small.node().run_background(small.now, small.effects());
    EXPECT_LE(small.node().counters().flushed_slots - before, 10u);
    ++slices;
  }
  EXPECT_GE(slices, 10u);
  small.background();
  EXPECT_EQ(small.in_state(SlotState::kCommitted), 0u);
}

TEST_F(RemoveTest, Flush_during_a_flush_walks_again) {
  NodeWorld::Options options;
  options.config.flush_slice_slots = 16;
  NodeWorld small(options);
  const ClientId c = small.attach();
  const NamespaceRow r = small.open(c);
  small.put(c, r, keys(1, 100));
  small.background();
  small.step(event::Flush{c, small.next_request(), r, false});
  for (int i = 0; i < 3; ++i) small.node().run_background(small.now, small.effects());
  small.put(c, r, keys(200, 16));  // may lie where the walk has been
  small.step(event::Flush{c, small.next_request(), r, false});
  small.background();
  EXPECT_EQ(small.in_state(SlotState::kCommitted), 0u);
  EXPECT_EQ(small.node().counters().flushed_slots, 116u);
}

TEST_F(RemoveTest, Flush_of_a_family_takes_all_ranks) {
  const NamespaceRow second = world.open(client, 4'096, "model", 1);
  const NamespaceRow other = world.open(client, 4'096, "other model");
  for (const NamespaceRow r : {row, second, other}) world.put(client, r, keys(1, 4));
  EXPECT_EQ(flush(second, true), 2u);
  EXPECT_EQ(world.found(row, keys(1, 4)) + world.found(second, keys(1, 4)), 0u);
  EXPECT_EQ(world.found(other, keys(1, 4)), 4u);
  EXPECT_EQ(flush(other, false), 1u);
}

TEST_F(RemoveTest, Flushed_pages_leave_only_after_their_readers) {
  const auto started = world.put(client, row, keys(1, 2), {.groups = {2}});
  const std::uint32_t cell = world.pin(client, SlotId{started.grants[0].slot});
  flush(row);
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 1u);
  world.unpin(client, cell);
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(RemoveTest, Exhausted_namespace_indexes_refuse_a_flush) {
  world.area().header().next_namespace_index.store(0xffffffff);
  const NodeAnswer* answer = world.step(event::Flush{client, world.next_request(), row, false});
  EXPECT_EQ(answer->status, static_cast<std::uint64_t>(ErrorCode::kLimit));
}

// ---- mismatch reports ----

class MismatchTest : public RemoveTest {
 protected:
  NodeWorld::Started started = world.put(client, row, keys(1, 2), {.groups = {2}});
  SlotId slot{started.grants[1].slot};

  MismatchReport report() {
    const auto& r = world.area().slot(slot);
    return {r.load_key(), r.load_ns().value, slot.value, r.load_word().generation.value, 0};
  }
  std::uint64_t send(const MismatchReport& r) {
    return world.step(event::ReportMismatch{client, world.next_request(), r})->args[0];
  }
};

TEST_F(MismatchTest, Proven_mismatch_takes_the_group) {
  EXPECT_EQ(send(report()), 1u);
  ASSERT_EQ(world.effects().verify.size(), 1u);
  const VerifyValue verify = world.effects().verify[0];
  EXPECT_EQ(verify.slot, slot);
  EXPECT_EQ(verify.value_len, 4'096u);
  EXPECT_EQ(verify.expected, world.area().slot(slot).load_checksum());
  EXPECT_EQ(verify.namespace_digest, world.area().namespace_row(row).digest_lo);
  world.step(event::ValueVerified{client, slot, verify.generation, false});
  EXPECT_EQ(world.found(row, keys(1, 2)), 0u);
  EXPECT_EQ(world.node().counters().mismatches_confirmed, 1u);
  world.background();
  EXPECT_EQ(world.in_state(SlotState::kRetiring), 0u);
}

TEST_F(MismatchTest, False_report_is_counted_and_changes_nothing) {
  EXPECT_EQ(send(report()), 1u);
  world.step(event::ValueVerified{client, slot, world.word(slot).generation, true});
  EXPECT_EQ(world.found(row, keys(1, 2)), 2u);
  EXPECT_EQ(world.node().counters().false_mismatches, 1u);
}

TEST_F(MismatchTest, One_check_per_client_at_a_time) {
  EXPECT_EQ(send(report()), 1u);
  EXPECT_EQ(send(report()), 0u);
  EXPECT_TRUE(world.effects().verify.empty());
  world.step(event::ValueVerified{client, slot, world.word(slot).generation, true});
  EXPECT_EQ(send(report()), 1u);
}

TEST_F(MismatchTest, Report_of_something_else_is_not_checked) {
  auto r = report();
  ++r.generation;
  EXPECT_EQ(send(r), 0u);
  r = report();
  r.key = key(99);
  EXPECT_EQ(send(r), 0u);
  r = report();
  ++r.ns;
  EXPECT_EQ(send(r), 0u);
  for (const std::uint32_t id : {0u, 400u, 0xfffffff0u}) {
    r = report();
    r.slot = id;
    EXPECT_EQ(send(r), 0u);
  }
}

TEST_F(MismatchTest, Slot_under_check_is_not_reused) {
  EXPECT_EQ(send(report()), 1u);
  const Generation generation = world.word(slot).generation;
  remove({key(1)});
  world.background();
  EXPECT_EQ(world.state(slot), SlotState::kRetiring) << "the node itself reads it";
  world.step(event::ValueVerified{client, slot, generation, false});
  world.now = world.node().next_deadline();
  world.tick();
  EXPECT_EQ(world.state(slot), SlotState::kFree);
}

TEST_F(MismatchTest, Group_under_check_is_not_evicted) {
  EXPECT_EQ(send(report()), 1u);
  for (std::uint64_t i = 0; i < 600; i += 8) world.put(client, row, keys(1'000 + i, 8));
  EXPECT_EQ(world.found(row, keys(1, 2)), 2u);
  world.step(event::ValueVerified{client, slot, world.word(slot).generation, true});
}

TEST_F(MismatchTest, Reporter_may_die_meanwhile) {
  const ClientId other = world.attach();
  const auto r = report();
  world.step(event::ReportMismatch{other, world.next_request(), r});
  world.step(event::ClientDied{other, false});
  world.step(event::ValueVerified{other, slot, world.word(slot).generation, false});
  EXPECT_EQ(world.found(row, keys(1, 2)), 0u);
  world.step(event::ValueVerified{other, slot, world.word(slot).generation, false});
}

// Who comes, reports and goes must not make the node hold slot after slot.
TEST_F(MismatchTest, Checks_under_way_are_bounded_whoever_asked_for_them) {
  const auto r = report();
  unsigned taken = 0;
  for (unsigned i = 0; i < 300; ++i) {
    const ClientId passing = world.attach();
    taken += world.step(event::ReportMismatch{passing, world.next_request(), r})->args[0];
    world.step(event::Detach{passing, world.next_request()});
    world.forget_channel(passing);
  }
  EXPECT_EQ(taken, 256u);
  world.step(
      event::ValueVerified{ClientId{client.value + 1}, slot, world.word(slot).generation, true});
  EXPECT_EQ(send(r), 1u);
}

// ---- namespaces ----

class NamespaceTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach();

  std::string refusal(const std::string& text, ErrorCode code) {
    const NodeAnswer* answer = world.step(event::OpenNamespace{client, world.next_request(), text});
    EXPECT_EQ(answer->status, static_cast<std::uint64_t>(code)) << world.text_of(*answer);
    return world.text_of(*answer);
  }
  static std::string text_with(std::uint32_t value_len, int number = 0) {
    return R"({"engine":"e","layout":"l","model":"m)" + std::to_string(number) +
           R"(","revision":"r","dtype":"d","page_tokens":16,"value_len":)" +
           std::to_string(value_len) + "}";
  }
};

TEST_F(NamespaceTest, Same_descriptor_gives_the_same_row) {
  const NamespaceRow row = world.open(client);
  const ClientId other = world.attach();
  EXPECT_EQ(world.open(other), row);
  EXPECT_NE(world.open(other, 4'096, "other"), row);
  ASSERT_EQ(world.node().namespaces().size(), 2u);
  EXPECT_THAT(std::string(world.node().namespaces()[1].text), HasSubstr("\"model\":\"other\""));
}

TEST_F(NamespaceTest, Answer_holds_row_index_and_value_len) {
  const std::string text = text_with(8'192);
  const NodeAnswer* answer = world.step(event::OpenNamespace{client, world.next_request(), text});
  EXPECT_THAT(answer->args, ElementsAre(0u, 1u, 8'192u));
}

TEST_F(NamespaceTest, Descriptor_of_an_open_row_with_other_text_is_refused) {
  const NamespaceRow row = world.open(client);
  world.area().namespace_text(row)[20] = 'X';  // as if the digests collided
  NamespaceDescriptor d;
  d.engine = "demo";
  d.layout = "demo-1";
  d.model = "model";
  d.revision = "r1";
  d.dtype = "bf16";
  d.page_tokens = 16;
  d.value_len = 4'096;
  d.tp_size = 8;
  EXPECT_THAT(refusal(*canonical_text(d), ErrorCode::kNamespaceConflict), HasSubstr("same digest"));
}

TEST_F(NamespaceTest, Bad_descriptors_are_refused) {
  EXPECT_THAT(refusal("{", ErrorCode::kInvalidArgument), HasSubstr("not JSON"));
  EXPECT_THAT(refusal(R"({"enigne":"x"})", ErrorCode::kNamespaceConflict), HasSubstr("'engine'"));
  EXPECT_THAT(refusal(text_with(64 * 1'024 + 1), ErrorCode::kInvalidArgument),
              HasSubstr("does not fit into a slab of 65536 bytes"));
}

TEST_F(NamespaceTest, Table_is_bounded) {
  for (int i = 0; i < 1'024; ++i) {
    const std::string text = text_with(4'096, i);
    ASSERT_EQ(world.step(event::OpenNamespace{client, world.next_request(), text})->status,
              kStatusOk);
  }
  EXPECT_THAT(refusal(text_with(4'096, 1'024), ErrorCode::kLimit), HasSubstr("all 1024"));
}

TEST_F(NamespaceTest, Size_classes_are_bounded) {
  NodeWorld::Options options;
  options.capacity = 64 * kMiB;
  options.max_value_len = 2 * kMiB;
  NodeWorld big(options);
  const ClientId c = big.attach();
  for (std::uint32_t pages = 1; pages <= 256; ++pages) big.open(c, pages * 4'096, "m");
  const std::string text = text_with(300 * 4'096);
  const NodeAnswer* answer = big.step(event::OpenNamespace{c, big.next_request(), text});
  EXPECT_EQ(answer->status, static_cast<std::uint64_t>(ErrorCode::kLimit));
}

TEST(NodeConfigTest, Values_outside_their_limits_are_refused) {
  const auto geometry = *segment::make_geometry(2 * kMiB, 64 * kKiB);
  TestMemory memory(geometry.control_bytes);
  const auto area = segment::ControlArea::format(memory.span(), geometry, SegmentId{1});
  const auto refusal = [&](auto&& change) {
    NodeConfig config;
    change(config);
    const auto node = NodeMachine::cold(area, config, Incarnation{1}, 0);
    return node ? std::string() : node.error().message;
  };
  EXPECT_EQ(refusal([](NodeConfig&) {}), "");
  EXPECT_THAT(refusal([](NodeConfig& c) { c.policy = "mru"; }), HasSubstr("mru"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.reserve_bytes = 3 * kMiB; }),
              HasSubstr("reserve_bytes is 3145728"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.prepared_cap_bytes = 3 * kMiB; }),
              HasSubstr("prepared_cap_bytes"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.max_pinned_bytes = 3 * kMiB; }),
              HasSubstr("max_pinned_bytes"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.max_space_wait = 2 * kNsPerSecond; }),
              HasSubstr("max_space_wait"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.flush_slice_slots = 0; }),
              HasSubstr("flush_slice_slots is 0"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.index_slice_buckets = 0; }),
              HasSubstr("index_slice_buckets"));
  EXPECT_THAT(refusal([](NodeConfig& c) { c.min_evict_groups = 0; }),
              HasSubstr("min_evict_groups"));
}

}  // namespace
}  // namespace orlop::protocol
