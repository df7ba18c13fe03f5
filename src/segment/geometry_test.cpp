// SPDX-License-Identifier: Apache-2.0
#include "segment/geometry.h"

#include <gtest/gtest.h>

namespace orlop::segment {
namespace {

constexpr std::uint64_t kQwenValue = 4'718'592;  // CAP-14: Qwen3-VL-8B, TP=2, page 64, one rank

TEST(SlotBytes, Rounds_up_to_whole_pages_and_at_least_one) {
  EXPECT_EQ(slot_bytes(1), 4096U);
  EXPECT_EQ(slot_bytes(4096), 4096U);
  EXPECT_EQ(slot_bytes(4097), 8192U);
  EXPECT_EQ(slot_bytes(kQwenValue), kQwenValue);  // exact fit, no power of two
}

TEST(SlotsPerSlab, Golden_113_values_of_4718592_bytes_in_512_MiB) {
  EXPECT_EQ(slots_per_slab(512 * kMiB, kQwenValue), 113U);
}

TEST(SlotsPerSlab, Value_over_the_slab_has_none) {
  EXPECT_EQ(slots_per_slab(64 * kKiB, 64 * kKiB), 1U);
  EXPECT_EQ(slots_per_slab(64 * kKiB, 64 * kKiB + 1), 0U);
  EXPECT_EQ(slots_per_slab(512 * kMiB, ~std::uint64_t{0}), 0U);
}

struct PayloadRow {
  std::uint64_t payload, slabs, slots, usable, physical;
};
TEST(ExpectedSlabs, Golden_payloads_of_a_128_GiB_owner) {
  const PayloadRow rows[] = {
      {109'951'162'777, 207, 23'391, 110'372'585'472, 111'132'278'784},       // CAP-15: 0.80
      {123'695'058'124, 232, 26'216, 26'216 * kQwenValue, 232 * 512 * kMiB},  // CAP-16: 0.90
      {130'567'005'798, 245, 27'685, 27'685 * kQwenValue, 245 * 512 * kMiB},  // CAP-16: 0.95
  };
  for (const PayloadRow& row : rows) {
    const std::uint64_t slabs = expected_slabs(row.payload, 512 * kMiB, kQwenValue);
    const std::uint64_t slots = slabs * slots_per_slab(512 * kMiB, kQwenValue);
    EXPECT_EQ(slabs, row.slabs);
    EXPECT_EQ(slots, row.slots);
    EXPECT_EQ(slots * slot_bytes(kQwenValue), row.usable);
    EXPECT_EQ(slabs * 512 * kMiB, row.physical);
  }
}

TEST(ExpectedSlabs, Tail_loss_of_every_slab_is_counted) {
  EXPECT_EQ(512 * kMiB - 113 * kQwenValue, 3'670'016U);  // CAP-16
  const std::uint64_t one_slab = 113 * kQwenValue;
  EXPECT_EQ(expected_slabs(one_slab, 512 * kMiB, kQwenValue), 1U);
  EXPECT_EQ(expected_slabs(one_slab + 1, 512 * kMiB, kQwenValue), 2U);
}

TEST(SlabBytes, Largest_power_of_two_of_a_32nd_of_the_capacity) {
  EXPECT_EQ(slab_bytes_for(128 * kGiB, 8 * kMiB), 512 * kMiB);
  EXPECT_EQ(slab_bytes_for(16 * kGiB, 8 * kMiB), 512 * kMiB);
  EXPECT_EQ(slab_bytes_for(16 * kGiB - 1, 8 * kMiB), 256 * kMiB);
  EXPECT_EQ(slab_bytes_for(256 * kMiB, 4 * kKiB), 8 * kMiB);
  EXPECT_EQ(slab_bytes_for(255 * kMiB, 4 * kKiB), 4 * kMiB);
}

TEST(SlabBytes, Never_smaller_than_the_largest_value) {
  EXPECT_EQ(slab_bytes_for(64 * kMiB, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(slab_bytes_for(64 * kMiB, 8 * kMiB + 1), 16 * kMiB);
  EXPECT_EQ(slab_bytes_for(1 * kGiB, 512 * kMiB), 512 * kMiB);
  EXPECT_EQ(slab_bytes_for(0, 1), 4 * kKiB);
}

TEST(IndexLog2, Smallest_power_of_two_of_buckets_for_five_slots_each) {
  EXPECT_EQ(index_log2_for(0), 1U);
  EXPECT_EQ(index_log2_for(10), 1U);
  EXPECT_EQ(index_log2_for(11), 2U);
  EXPECT_EQ(index_log2_for(20), 2U);
  EXPECT_EQ(index_log2_for(21), 3U);
  EXPECT_EQ(index_log2_for(4'000'000), 20U);
}

TEST(MakeGeometry, Parts_are_page_aligned_disjoint_and_inside) {
  const Geometry g = *make_geometry(10 * kGiB + 12'345, 8 * kMiB);
  EXPECT_EQ(g.slab_bytes, 256 * kMiB);
  EXPECT_EQ(g.slab_count, 40U);  // rounded down to whole slabs
  EXPECT_EQ(g.slot_rows, 1 + 40 * 65'536U);
  const std::uint64_t starts[] = {
      g.slab_table_offset, g.namespace_table_offset, g.namespace_text_offset, g.slot_table_offset,
      g.index_offset[0],   g.index_offset[1],        g.control_bytes};
  const std::uint64_t sizes[] = {std::uint64_t{4} * g.slab_count,
                                 std::uint64_t{64} * kMaxNamespaceRows,
                                 std::uint64_t{kNamespaceTextBytes} * kMaxNamespaceRows,
                                 std::uint64_t{64} * g.slot_rows,
                                 g.index_place_bytes,
                                 g.index_place_bytes};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(starts[i] % kPageBytes, 0U);
    EXPECT_LE(starts[i] + sizes[i], starts[i + 1]);
  }
  EXPECT_GE(g.index_place_bytes, std::uint64_t{64} << g.max_index_log2);
  EXPECT_TRUE(g.consistent());
}

TEST(MakeGeometry, Slot_table_is_a_small_part_of_the_capacity) {
  const Geometry g = *make_geometry(128 * kGiB, 8 * kMiB);
  const double share = 64.0 * g.slot_rows / static_cast<double>(g.value_bytes());
  EXPECT_LT(share, 0.017);  // 1.6 %
}

TEST(MakeGeometry, Bad_sizes_are_refused_with_the_numbers) {
  const auto small = make_geometry(1 * kMiB, 8 * kMiB);
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(small.error().message.find("1048576"), std::string::npos);
  EXPECT_NE(small.error().message.find("8388608"), std::string::npos);

  EXPECT_FALSE(make_geometry(kGiB, 0).has_value());
  const auto large = make_geometry(kGiB, 512 * kMiB + 1);
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("536870913"), std::string::npos);
}

TEST(MakeGeometry, More_slots_than_ids_are_refused) {
  const std::uint64_t limit = std::uint64_t{16} * 1024 * kGiB;  // 2^32 slots of 4 KiB
  EXPECT_FALSE(make_geometry(limit, 8 * kMiB).has_value());
  EXPECT_FALSE(make_geometry(~std::uint64_t{0}, 8 * kMiB).has_value());
  EXPECT_TRUE(make_geometry(limit - 512 * kMiB, 8 * kMiB).has_value());
}

TEST(Geometry, Slot_ids_and_their_places_round_trip) {
  const Geometry g = *make_geometry(256 * kMiB, 1 * kMiB);
  for (const std::uint32_t slab : {0U, 1U, g.slab_count - 1}) {
    for (const std::uint32_t ordinal : {0U, 1U, g.ordinals_per_slab - 1}) {
      const SlotId id = g.slot_id(SlabId{slab}, ordinal);
      EXPECT_NE(id.value, 0U);
      EXPECT_LT(id.value, g.slot_rows);
      EXPECT_EQ(g.slab_of(id).value, slab);
      EXPECT_EQ(g.ordinal_of(id), ordinal);
    }
  }
  EXPECT_EQ(g.value_offset(g.slot_id(SlabId{2}, 3), 5000), 2 * g.slab_bytes + 3 * 8192);
}

TEST(Geometry, Slot_over_the_end_of_its_slab_is_out_of_bounds) {
  const Geometry g = *make_geometry(256 * kMiB, 1 * kMiB);  // slabs of 8 MiB
  EXPECT_TRUE(g.in_bounds(g.slot_id(SlabId{0}, 7), 1 * kMiB));
  EXPECT_FALSE(g.in_bounds(g.slot_id(SlabId{0}, 8), 1 * kMiB));
  EXPECT_FALSE(g.in_bounds(g.slot_id(SlabId{0}, 0), 8 * kMiB + 1));
  EXPECT_FALSE(g.in_bounds(g.slot_id(SlabId{0}, 0), 0));
  EXPECT_FALSE(g.in_bounds(SlotId{0}, 4096));
  EXPECT_FALSE(g.in_bounds(SlotId{g.slot_rows}, 4096));
}

TEST(Geometry, Changed_numbers_are_inconsistent) {
  const Geometry g = *make_geometry(256 * kMiB, 1 * kMiB);
  const auto consistent_after = [&](auto change) {
    Geometry changed = g;
    change(changed);
    return changed.consistent();
  };
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.slab_bytes = 0; }));
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.slab_bytes += 4096; }));
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.slab_count = 0; }));
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.slab_count = ~0U; }));
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.slot_table_offset += 4096; }));
  EXPECT_FALSE(consistent_after([](Geometry& c) { c.max_index_log2 += 1; }));
}

}  // namespace
}  // namespace orlop::segment
