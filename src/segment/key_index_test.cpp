// SPDX-License-Identifier: Apache-2.0
#include "segment/key_index.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

constexpr NamespaceIndex kNs = TestSegment::kNs;

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(ORLOP_SIMULATION) || defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
constexpr bool kSlowAtomics = true;
#else
constexpr bool kSlowAtomics = false;
#endif

IndexHit find(const TestSegment& segment, const KeyId& key, NamespaceIndex ns = kNs) {
  return index_find(segment.area(), segment.area().index_word(), key, ns);
}

// A segment with all its 512 slots assigned and an index for them.
class KeyIndexTest : public testing::Test {
 protected:
  KeyIndexTest() {
    segment_.assign_all_slabs();
    segment_.index().ensure_capacity(segment_.geometry().slot_rows - 1);
  }
  void free(SlotId slot) {
    const SlotRow& row = segment_.area().slot(slot);
    EXPECT_TRUE(segment_.index().erase(row.load_key(), row.load_ns(), slot));
    segment_.set_state(slot, SlotState::kFree);
  }
  TestSegment segment_;
};

TEST_F(KeyIndexTest, Empty_index_grows_at_once_and_finds_nothing) {
  EXPECT_FALSE(segment_.index().growing());
  EXPECT_EQ(segment_.index().buckets(), 128U);  // smallest power of two >= 512 / 5
  EXPECT_FALSE(find(segment_, test_key(1)).slot);
  segment_.index().validate();
}

TEST_F(KeyIndexTest, Inserted_key_is_found_in_its_namespace_only) {
  segment_.commit(SlotId{5}, test_key(1));
  EXPECT_EQ(find(segment_, test_key(1)).slot, SlotId{5});
  EXPECT_EQ(find(segment_, test_key(1)).word.generation, Generation{1});
  EXPECT_FALSE(find(segment_, test_key(1), NamespaceIndex{2}).slot);
  EXPECT_FALSE(find(segment_, test_key(2)).slot);
}

TEST_F(KeyIndexTest, Entry_of_an_unreadable_slot_is_passed_over) {
  segment_.commit(SlotId{5}, test_key(1));
  for (const SlotState hidden : {SlotState::kRetiring, SlotState::kPrepared, SlotState::kFree}) {
    segment_.set_state(SlotId{5}, hidden);
    EXPECT_FALSE(find(segment_, test_key(1)).slot);
  }
  segment_.set_state(SlotId{5}, SlotState::kLocalReady);
  EXPECT_EQ(find(segment_, test_key(1)).slot, SlotId{5});
}

TEST_F(KeyIndexTest, Erase_takes_the_entry_of_exactly_this_slot) {
  segment_.commit(SlotId{5}, test_key(1));
  EXPECT_FALSE(segment_.index().erase(test_key(1), kNs, SlotId{6}));
  EXPECT_FALSE(segment_.index().erase(test_key(2), kNs, SlotId{5}));
  EXPECT_EQ(segment_.index().entries(), 1U);
  EXPECT_TRUE(segment_.index().erase(test_key(1), kNs, SlotId{5}));
  EXPECT_FALSE(segment_.index().erase(test_key(1), kNs, SlotId{5}));
  EXPECT_EQ(segment_.index().entries(), 0U);
}

// A doomed slot leaves the index at once, and the key may be put again while the old one is pinned.
TEST_F(KeyIndexTest, Same_key_in_two_slots_finds_the_readable_one) {
  segment_.commit(SlotId{5}, test_key(1));
  segment_.set_state(SlotId{5}, SlotState::kRetiring);
  segment_.commit(SlotId{6}, test_key(1));
  EXPECT_EQ(find(segment_, test_key(1)).slot, SlotId{6});
  EXPECT_TRUE(segment_.index().erase(test_key(1), kNs, SlotId{5}));
  EXPECT_EQ(find(segment_, test_key(1)).slot, SlotId{6});
}

TEST_F(KeyIndexTest, Colliding_tag_and_bucket_are_told_apart_by_the_slot) {
  const KeyId a = test_key(1);
  // Same low word, and the same low half of the high word: bucket and tag agree.
  const KeyId b{a.lo, a.hi ^ (1ULL << 40)};
  ASSERT_EQ(index_hash(a, kNs).bucket, index_hash(b, kNs).bucket);
  ASSERT_EQ(index_hash(a, kNs).tag, index_hash(b, kNs).tag);
  segment_.commit(SlotId{5}, a);
  EXPECT_FALSE(find(segment_, b).slot);
  segment_.commit(SlotId{6}, b);
  EXPECT_EQ(find(segment_, a).slot, SlotId{5});
  EXPECT_EQ(find(segment_, b).slot, SlotId{6});
  EXPECT_TRUE(segment_.index().erase(a, kNs, SlotId{5}));
  EXPECT_EQ(find(segment_, b).slot, SlotId{6});
  segment_.set_state(SlotId{5}, SlotState::kFree);
  segment_.index().validate();
}

TEST_F(KeyIndexTest, Namespaces_spread_the_same_page_over_buckets) {
  std::map<std::uint32_t, int> buckets;
  for (std::uint32_t ns = 1; ns <= 64; ++ns)
    ++buckets[index_hash(test_key(1), NamespaceIndex{ns}).bucket % 128];
  EXPECT_GT(buckets.size(), 32U);
}

TEST_F(KeyIndexTest, Overflowed_entries_are_found_and_the_counters_go_back_to_zero) {
  // 30 keys of one bucket: they fill it and pass over to the next four.
  const std::uint32_t mask = 127;
  std::vector<KeyId> keys;
  for (std::uint64_t n = 0; keys.size() < 30; ++n) {
    if ((index_hash(test_key(n), kNs).bucket & mask) == 126) keys.push_back(test_key(n));
  }
  for (std::uint32_t i = 0; i < 30; ++i) segment_.commit(SlotId{i + 1}, keys[i]);
  const IndexBucket* place = segment_.area().index_place(segment_.area().index_word().place);
  EXPECT_EQ(place[126].overflowed.load(), 23U);
  EXPECT_EQ(place[127].overflowed.load(), 16U);
  EXPECT_EQ(place[0].overflowed.load(), 9U);  // wraps around
  EXPECT_EQ(place[2].overflowed.load(), 0U);
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(find(segment_, keys[i]).slot, SlotId{i + 1});
  segment_.index().validate();

  for (std::uint32_t i = 0; i < 30; i += 2) free(SlotId{i + 1});
  for (std::uint32_t i = 1; i < 30; i += 2) EXPECT_EQ(find(segment_, keys[i]).slot, SlotId{i + 1});
  for (std::uint32_t i = 1; i < 30; i += 2) free(SlotId{i + 1});
  for (std::uint32_t b = 0; b < 128; ++b) EXPECT_EQ(place[b].overflowed.load(), 0U);
}

TEST_F(KeyIndexTest, Probe_ends_when_every_bucket_lies) {
  // All counters claim overflow, all entries have the wanted tag and impossible slots.
  const IndexHash hash = index_hash(test_key(1), kNs);
  const IndexWord word = segment_.area().index_word();
  for (std::uint64_t b = 0; b < (1ULL << word.log2); ++b) {
    IndexBucket& bucket = segment_.area().index_place(word.place)[b];
    bucket.overflowed.store(~std::uint64_t{0});
    for (std::uint32_t e = 0; e < kBucketEntries; ++e)
      bucket.entry[e].store((std::uint64_t{hash.tag} << 32) | (0xffffff00U + e));
  }
  EXPECT_FALSE(find(segment_, test_key(1)).slot);
  // A word that claims more buckets than the place is mapped for stays inside it.
  EXPECT_FALSE(index_find(segment_.area(), IndexWord{9, 1, 63}, test_key(1), kNs).slot);
}

struct GrowthCase {
  std::uint64_t seed;
  std::uint32_t slice;
};
class KeyIndexModelTest : public testing::TestWithParam<GrowthCase> {};

// Random inserts and erases while the index grows from two buckets in slices, against a map.
TEST_P(KeyIndexModelTest, Random_operations_during_growth_agree_with_a_model) {
  TestSegment segment;
  segment.assign_all_slabs();
  KeyIndexWriter& index = segment.index();
  Rng rng(GetParam().seed);
  std::map<std::uint32_t, std::uint64_t> key_of;  // by slot
  std::map<std::uint64_t, std::uint32_t> slot_of;
  const auto slots = std::uint64_t{segment.geometry().slot_rows} - 1;
  std::uint64_t wanted = 8;
  int switches = 0;
  for (int step = 0; step < 6'000; ++step) {
    const double fill = std::min(1.0, step / 3'000.0);
    const auto slot = static_cast<std::uint32_t>(1 + rng.uniform(slots));
    if (const auto it = key_of.find(slot); it != key_of.end()) {
      if (!rng.chance(0.5)) continue;
      ASSERT_TRUE(index.erase(test_key(it->second), kNs, SlotId{slot}));
      segment.set_state(SlotId{slot}, SlotState::kFree);
      slot_of.erase(it->second);
      key_of.erase(it);
    } else if (static_cast<double>(key_of.size()) < fill * static_cast<double>(slots)) {
      const std::uint64_t number = rng.uniform(2'000);
      if (slot_of.contains(number)) continue;
      segment.commit(SlotId{slot}, test_key(number));
      key_of[slot] = number;
      slot_of[number] = slot;
    }
    if (key_of.size() * 2 > wanted) index.ensure_capacity(wanted = std::min(wanted * 3, slots));
    if (rng.chance(0.3)) switches += index.grow_slice(GetParam().slice) ? 1 : 0;
    if (rng.chance(0.05)) segment.punch_idle_place();
    const std::uint64_t asked = rng.uniform(2'000);
    const auto expected = slot_of.find(asked);
    ASSERT_EQ(find(segment, test_key(asked)).slot.value,
              expected == slot_of.end() ? 0 : expected->second);
    ASSERT_EQ(index.entries(), key_of.size());
    if (step % 500 == 0) index.validate();
  }
  while (index.growing()) index.grow_slice(GetParam().slice);
  EXPECT_GT(switches, 0);
  EXPECT_GE(index.buckets(), 64U);
  for (const auto& [number, slot] : slot_of)
    ASSERT_EQ(find(segment, test_key(number)).slot.value, slot);
  index.validate();
}
INSTANTIATE_TEST_SUITE_P(Slices, KeyIndexModelTest,
                         testing::Values(GrowthCase{1, 1}, GrowthCase{2, 1}, GrowthCase{3, 3},
                                         GrowthCase{4, 16}, GrowthCase{5, 1'000}));

// Grows an index in two steps, with `act` between them; the index is at half of its old buckets.
template <class Act>
void grow_around(TestSegment& segment, Act&& act) {
  KeyIndexWriter& index = segment.index();
  index.ensure_capacity(80);
  segment.punch_idle_place();
  const auto old_buckets = static_cast<std::uint32_t>(index.buckets());
  for (std::uint32_t i = 1; i <= 60; ++i) segment.commit(SlotId{i}, test_key(i));
  index.ensure_capacity(512);
  ASSERT_TRUE(index.growing());
  ASSERT_FALSE(index.grow_slice(old_buckets / 2));
  act();
  ASSERT_TRUE(index.grow_slice(old_buckets));
  index.validate();
}

TEST(KeyIndexGrowth, Insert_between_slices_is_there_once) {
  TestSegment segment;
  segment.assign_all_slabs();
  grow_around(segment, [&] {
    for (std::uint32_t i = 61; i <= 80; ++i) segment.commit(SlotId{i}, test_key(i));
  });
  EXPECT_EQ(segment.index().entries(), 80U);
  // Erasing once leaves nothing behind: the slice did not copy what insert had put there.
  for (std::uint32_t i = 1; i <= 80; ++i) {
    EXPECT_TRUE(segment.index().erase(test_key(i), kNs, SlotId{i}));
    EXPECT_FALSE(segment.index().erase(test_key(i), kNs, SlotId{i}));
    segment.set_state(SlotId{i}, SlotState::kFree);
  }
  segment.index().validate();
}

TEST(KeyIndexGrowth, Erase_between_slices_is_not_undone) {
  TestSegment segment;
  segment.assign_all_slabs();
  grow_around(segment, [&] {
    for (std::uint32_t i = 1; i <= 60; i += 2) {
      EXPECT_TRUE(segment.index().erase(test_key(i), kNs, SlotId{i}));
      segment.set_state(SlotId{i}, SlotState::kFree);
    }
  });
  EXPECT_EQ(segment.index().entries(), 30U);
  for (std::uint32_t i = 1; i <= 60; ++i)
    EXPECT_EQ(find(segment, test_key(i)).slot.value, i % 2 == 1 ? 0 : i);
}

TEST(KeyIndexGrowth, Slot_reused_between_slices_has_only_its_new_key) {
  TestSegment segment;
  segment.assign_all_slabs();
  grow_around(segment, [&] {
    for (std::uint32_t i = 1; i <= 60; ++i) {
      EXPECT_TRUE(segment.index().erase(test_key(i), kNs, SlotId{i}));
      segment.set_state(SlotId{i}, SlotState::kFree);
      segment.commit(SlotId{i}, test_key(1'000 + i));
    }
  });
  EXPECT_EQ(segment.index().entries(), 60U);
  for (std::uint32_t i = 1; i <= 60; ++i) {
    EXPECT_FALSE(find(segment, test_key(i)).slot);
    EXPECT_EQ(find(segment, test_key(1'000 + i)).slot, SlotId{i});
  }
}

TEST(KeyIndexGrowth, Growth_waits_until_the_idle_place_is_punched) {
  TestSegment segment;
  segment.assign_all_slabs();
  KeyIndexWriter& index = segment.index();
  EXPECT_FALSE(index.wants_punch().has_value());
  index.ensure_capacity(40);
  EXPECT_EQ(index.wants_punch(), 0U);
  segment.commit(SlotId{1}, test_key(1));
  index.ensure_capacity(512);
  EXPECT_FALSE(index.growing());
  segment.punch_idle_place();
  EXPECT_TRUE(index.growing());
  EXPECT_FALSE(index.wants_punch().has_value());
  while (index.growing()) index.grow_slice(2);
  EXPECT_EQ(index.wants_punch(), 1U);
  EXPECT_EQ(find(segment, test_key(1)).slot, SlotId{1});
}

TEST(KeyIndexGrowth, Inserts_that_outrun_the_slices_finish_the_growth) {
  TestSegment segment;
  segment.assign_all_slabs();
  KeyIndexWriter& index = segment.index();
  index.ensure_capacity(1);
  // Neither a slice nor a punch from here on.
  for (std::uint32_t i = 1; i <= 512; ++i) {
    segment.commit(SlotId{i}, test_key(i));
    index.ensure_capacity(i);
  }
  EXPECT_GE(index.buckets() * kBucketEntries, 512U);
  for (std::uint32_t i = 1; i <= 512; ++i) EXPECT_EQ(find(segment, test_key(i)).slot, SlotId{i});
  while (index.growing()) index.grow_slice(16);
  index.validate();
}

TEST(KeyIndexGrowth, Index_never_shrinks) {
  TestSegment segment;
  KeyIndexWriter& index = segment.index();
  index.ensure_capacity(512);
  segment.punch_idle_place();
  index.ensure_capacity(1);
  EXPECT_FALSE(index.growing());
  EXPECT_EQ(index.buckets(), 128U);
}

TEST(KeyIndexRebuild, Readers_keep_the_old_place_until_publish) {
  TestSegment segment;
  segment.assign_all_slabs();
  segment.index().ensure_capacity(512);
  for (std::uint32_t i = 1; i <= 100; ++i) segment.commit(SlotId{i}, test_key(i));

  KeyIndexWriter recovered(segment.area());
  // A growth died in the idle place.
  IndexBucket* idle = segment.area().index_place(segment.area().index_word().place ^ 1U);
  idle[3].entry[2].store(0x1234'0000'0005);
  idle[4].overflowed.store(99);
  const IndexWord before = segment.area().index_word();
  recovered.begin_rebuild(512);
  for (std::uint32_t i = 1; i <= 100; i += 2) recovered.insert(test_key(i), kNs, SlotId{i});
  EXPECT_EQ(segment.area().index_word(), before);
  EXPECT_EQ(find(segment, test_key(2)).slot, SlotId{2});
  for (std::uint32_t i = 2; i <= 100; i += 2) segment.set_state(SlotId{i}, SlotState::kFree);

  EXPECT_TRUE(recovered.erase(test_key(99), kNs, SlotId{99}));
  segment.set_state(SlotId{99}, SlotState::kFree);
  recovered.publish_rebuild();
  EXPECT_EQ(segment.area().index_word().epoch, before.epoch + 1);
  EXPECT_EQ(recovered.entries(), 49U);
  for (std::uint32_t i = 1; i <= 97; i += 2) EXPECT_EQ(find(segment, test_key(i)).slot, SlotId{i});
  recovered.validate();
  EXPECT_EQ(recovered.wants_punch(), before.place);
}

TEST(KeyIndexDeathTest, Index_with_a_past_refuses_inserts_before_its_rebuild) {
  TestSegment segment;
  segment.index().ensure_capacity(512);
  KeyIndexWriter recovered(segment.area());
  EXPECT_DEATH(recovered.insert(test_key(1), kNs, SlotId{1}), "rebuilt first");
}

TEST(KeyIndex, Four_million_entries_grow_in_slices_and_are_all_found) {
  if (kSlowAtomics) GTEST_SKIP() << "too slow with instrumented atomics: the plain build shows it";
  constexpr std::uint32_t kSlots = 4'000'000, kFirst = 1'300'000;
  TestSegment segment(std::uint64_t{kSlots} * 4 * kKiB + kGiB, 8 * kMiB);
  KeyIndexWriter& index = segment.index();
  index.ensure_capacity(kFirst);
  segment.punch_idle_place();
  std::uint32_t next = 1;
  for (; next <= kFirst; ++next) segment.commit(SlotId{next}, test_key(next));
  index.ensure_capacity(kSlots);
  int slices = 0;
  for (; index.growing(); ++slices) {
    index.grow_slice(1'024);
    for (int i = 0; i < 500; ++i, ++next) segment.commit(SlotId{next}, test_key(next));
  }
  EXPECT_EQ(slices, 256);  // 2^18 buckets
  for (; next <= kSlots; ++next) segment.commit(SlotId{next}, test_key(next));
  EXPECT_EQ(index.entries(), kSlots);
  for (std::uint32_t i = 1; i <= kSlots; i += 7)
    ASSERT_EQ(find(segment, test_key(i)).slot.value, i);
}

}  // namespace
}  // namespace orlop::segment
