// SPDX-License-Identifier: Apache-2.0
#include "segment/slot_row.h"

#include <gtest/gtest.h>

#include <set>

namespace orlop::segment {
namespace {

SlotFields sample_fields() {
  SlotFields f;
  f.key = {0x0123456789abcdef, 0xfedcba9876543210};
  f.value_len = 4'718'592;
  f.ns = NamespaceIndex{0xfffffffe};
  f.group = {3, 7, 65'535, 0xbeef, SlotId{0xdeadbeef}};
  f.put =
      PutId{0x9ffffffff};  // a number, so that the golden sum does not depend on how ids are made
  return f;
}

TEST(SlotWord, Pack_unpack_gives_the_same_word) {
  for (int state = 0; state < kSlotStateCount; ++state) {
    const SlotWord word{Generation{0xfffffff0}, static_cast<SlotState>(state), kFlagDoomed, 0xabcd};
    EXPECT_EQ(SlotWord::unpack(word.pack()), word);
  }
}

TEST(SlotWord, Readable_only_in_local_ready_and_committed) {
  std::set<SlotState> readable;
  for (int state = 0; state < kSlotStateCount; ++state) {
    const SlotWord word{Generation{1}, static_cast<SlotState>(state), 0, 0};
    if (word.readable()) readable.insert(word.state);
  }
  EXPECT_EQ(readable, (std::set<SlotState>{SlotState::kLocalReady, SlotState::kCommitted}));
}

TEST(SlotWord, Zeroed_memory_is_a_free_slot_of_generation_0) {
  const SlotWord word = SlotWord::unpack(0);
  EXPECT_EQ(word.state, SlotState::kFree);
  EXPECT_EQ(word.generation.value, 0U);
}

TEST(LedgerCell, Pack_of_a_real_slot_is_never_the_empty_cell) {
  EXPECT_NE((LedgerCell{SlotId{1}, Generation{0}}.pack()), 0U);
  const LedgerCell cell{SlotId{0xfffffffe}, Generation{0xffffffff}};
  EXPECT_EQ(LedgerCell::unpack(cell.pack()).slot, cell.slot);
  EXPECT_EQ(LedgerCell::unpack(cell.pack()).generation, cell.generation);
}

TEST(SlotRow, Fields_stored_load_back) {
  SlotRow row{};
  row.store_fields(sample_fields());
  EXPECT_EQ(row.load_fields(), sample_fields());
  EXPECT_TRUE(row.has_identity(sample_fields().key, sample_fields().ns));
  EXPECT_FALSE(row.has_identity(sample_fields().key, NamespaceIndex{1}));
  EXPECT_EQ(row.load_checksum(), 0U);
  EXPECT_EQ(row.load_fields_sum(), 0U);
}

TEST(SlotRow, Checksums_stored_leave_the_fields_alone) {
  SlotRow row{};
  row.store_fields(sample_fields());
  row.store_checksums(0x1122334455667788, 0xcafef00d);
  EXPECT_EQ(row.load_fields(), sample_fields());
  EXPECT_EQ(row.load_checksum(), 0x1122334455667788U);
  EXPECT_EQ(row.load_fields_sum(), 0xcafef00dU);
}

TEST(SlotRow, Fields_of_a_new_generation_wipe_the_old_checksums) {
  SlotRow row{};
  row.store_fields(sample_fields());
  row.store_checksums(1, 2);
  row.store_fields(sample_fields());
  EXPECT_EQ(row.load_checksum(), 0U);
  EXPECT_EQ(row.load_fields_sum(), 0U);
}

TEST(FieldsSum, Any_torn_field_is_detected) {
  const SlotFields whole = sample_fields();
  const std::uint32_t sum = fields_sum(whole, 5, Generation{6});
  EXPECT_EQ(fields_sum(whole, 5, Generation{6}), sum);
  EXPECT_NE(fields_sum(whole, 4, Generation{6}), sum);
  EXPECT_NE(fields_sum(whole, 5, Generation{7}), sum);

  const auto differs = [&](auto change) {
    SlotFields torn = whole;
    change(torn);
    return fields_sum(torn, 5, Generation{6}) != sum;
  };
  EXPECT_TRUE(differs([](SlotFields& f) { f.key.lo ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.key.hi ^= 1ULL << 63; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.value_len ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.ns.value ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.group.index ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.group.length ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.group.group_number ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.group.parent_generation ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.group.parent.value ^= 1; }));
  EXPECT_TRUE(differs([](SlotFields& f) { f.put.value ^= 1; }));
}

TEST(FieldsSum, A_zeroed_row_does_not_sum_to_zero) {
  EXPECT_NE(fields_sum(SlotFields{}, 0, Generation{0}), 0U);
}

TEST(FieldsSum, Golden_value_stays) {
  // Part of the ABI: a server of the next build recovers rows of this one.
  EXPECT_EQ(fields_sum(sample_fields(), 5, Generation{6}), 1'203'267'373U);
}

}  // namespace
}  // namespace orlop::segment
