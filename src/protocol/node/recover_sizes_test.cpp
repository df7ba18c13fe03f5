// SPDX-License-Identifier: Apache-2.0
// Recovery under a slab table that no longer tells the sizes of its slots. Found by
// tests/fuzz/recovery.cpp: pages were counted in one size and evicted in another.
#include "protocol/node/node_fixture.h"

namespace orlop::protocol {
namespace {

using segment::SlotState;

// 4 KiB pages: slabs of 16 slots.
class RecoverSizesTest : public ::testing::Test {
 protected:
  NodeWorld world;
  ClientId client = world.attach("a");
  NamespaceRow row = world.open(client);

  SlabId slab_of(const NodeWorld::Started& of, std::size_t i) const {
    return SlabId{(of.grants[i].slot - 1) / world.geometry().ordinals_per_slab};
  }
  // As if it were a slab for pages of 8 KiB. Every second row is none then: as never used.
  void double_slots_of(SlabId slab) {
    const segment::Geometry& g = world.geometry();
    world.area().slab(slab).slot_pages.store(2);
    for (std::uint32_t ordinal = g.ordinals_per_slab / 2; ordinal < g.ordinals_per_slab; ++ordinal)
      world.area().slot(g.slot_id(slab, ordinal)).store_word({});
  }
};

TEST_F(RecoverSizesTest, Page_in_a_slot_of_another_size_goes_with_its_group) {
  world.put(client, row, keys(1, 14));
  const auto group = world.put(client, row, keys(20, 20), {.groups = {20}});
  ASSERT_NE(slab_of(group, 0).value, slab_of(group, 19).value) << "the group lies in two slabs";
  double_slots_of(slab_of(group, 19));
  const RecoveryReport report = world.restart();
  EXPECT_EQ(world.found(row, keys(20, 20)), 0u);
  EXPECT_EQ(world.found(row, keys(1, 14)), 14u) << "the other slab's pages are sound";
  EXPECT_EQ(report.slots_doomed, 20u);
  world.node().validate();
  world.put(client, row, keys(100, 500));  // evicts all of it
  world.node().validate();
}

TEST_F(RecoverSizesTest, Group_of_values_of_two_sizes_is_dropped) {
  const NamespaceRow large = world.open(client, 5'000, "large");
  const auto small_page = world.put(client, row, keys(1, 2), {.groups = {2}});
  const auto large_page = world.put(client, large, keys(1, 1));
  // The large page says that it is the second member of the small page's group.
  segment::SlotRow& forged = world.area().slot(SlotId{large_page.grants[0].slot});
  const SlotId lost{small_page.grants[1].slot};
  segment::SlotFields fields = world.area().slot(lost).load_fields();
  fields.value_len = 5'000;
  forged.store_fields(fields);
  forged.store_checksums(
      forged.load_checksum(),
      segment::fields_sum(fields, forged.load_checksum(), forged.load_word().generation));
  world.area().slot(lost).store_word({});
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.slots_kept, 0u);
  EXPECT_EQ(report.slots_doomed, 2u);
  world.node().validate();
}

TEST_F(RecoverSizesTest, Open_put_with_slots_of_two_sizes_refuses_the_start) {
  world.put(client, row, keys(1, 14));
  const auto open = world.put_start(client, row, keys(20, 20), {.groups = {20}});
  ASSERT_NE(slab_of(open, 0).value, slab_of(open, 19).value) << "the put lies in two slabs";
  double_slots_of(slab_of(open, 19));
  const segment::ChannelView channel = world.channel(client);
  world.kill();
  const auto recovered =
      NodeMachine::recover(world.area(), NodeWorld::plain_config(), Incarnation{3},
                           {{client, channel, "a"}}, world.now, nullptr);
  ASSERT_FALSE(recovered.has_value());
  EXPECT_EQ(recovered.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(recovered.error().message, ::testing::HasSubstr("other slots of the same open put"));
}

TEST_F(RecoverSizesTest, Open_put_of_nobody_is_freed_whatever_its_slots_are) {
  world.put(client, row, keys(1, 14));
  const auto open = world.put_start(client, row, keys(20, 20), {.groups = {20}});
  double_slots_of(slab_of(open, 19));
  world.forget_channel(client);
  const RecoveryReport report = world.restart();
  EXPECT_EQ(report.prepared_freed, 20u);
  EXPECT_EQ(world.in_state(SlotState::kPrepared), 0u);
  world.node().validate();
}

}  // namespace
}  // namespace orlop::protocol
