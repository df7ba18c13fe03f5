// SPDX-License-Identifier: Apache-2.0
#include "segment/slot_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

constexpr std::uint32_t kPage = 4096;

// Runs of adjacent ascending ids.
std::vector<std::uint32_t> run_lengths(const std::vector<SlotId>& slots) {
  std::vector<std::uint32_t> runs;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i > 0 && slots[i].value == slots[i - 1].value + 1)
      ++runs.back();
    else
      runs.push_back(1);
  }
  return runs;
}

TEST(FreeRuns, Fresh_slab_is_one_run) {
  for (const std::uint32_t slots : {1U, 63U, 64U, 65U, 113U, 131'072U}) {
    const FreeRuns runs(slots);
    EXPECT_EQ(runs.longest(), slots);
    EXPECT_EQ(runs.free(), slots);
    EXPECT_EQ(runs.find(slots), 0U);
  }
}

TEST(FreeRuns, Leftmost_run_that_is_long_enough_is_found) {
  FreeRuns runs(200);
  runs.take(10, 1);
  runs.take(30, 1);
  runs.take(130, 1);
  EXPECT_EQ(runs.find(10), 0U);
  EXPECT_EQ(runs.find(11), 11U);
  EXPECT_EQ(runs.find(20), 31U);
  EXPECT_EQ(runs.longest(), 99U);  // 31..129, across two words
  EXPECT_EQ(runs.find(99), 31U);
}

TEST(FreeRuns, Random_use_agrees_with_a_plain_search) {
  for (const std::uint32_t slots : {7U, 64U, 100U, 513U, 1000U}) {
    FreeRuns runs(slots);
    std::vector<bool> is_free(slots, true);
    Rng rng(slots);
    const auto longest_of = [&] {
      std::uint32_t best = 0, run = 0;
      for (const bool f : is_free) best = std::max(best, run = f ? run + 1 : 0);
      return best;
    };
    const auto first_of = [&](std::uint32_t length) {
      std::uint32_t run = 0;
      for (std::uint32_t i = 0; i < slots; ++i) {
        run = is_free[i] ? run + 1 : 0;
        if (run == length) return i + 1 - length;
      }
      return slots;
    };
    for (int step = 0; step < 3'000; ++step) {
      if (rng.chance(0.35) && longest_of() > 0) {
        runs.settle();
        ASSERT_EQ(runs.longest(), longest_of());
        const auto length = static_cast<std::uint32_t>(rng.between(1, longest_of()));
        const std::uint32_t first = runs.find(length);
        ASSERT_EQ(first, first_of(length));
        runs.take(first, length);
        std::fill_n(is_free.begin() + first, length, false);
      } else if (const auto i = static_cast<std::uint32_t>(rng.uniform(slots)); !is_free[i]) {
        runs.give_back(i);
        is_free[i] = true;
      }
      ASSERT_EQ(runs.free(), std::ranges::count(is_free, true));
    }
  }
}

TEST(FreeRunsDeathTest, Slot_taken_or_freed_twice_stops_the_process) {
  FreeRuns runs(10);
  runs.take(3, 2);
  EXPECT_DEATH(runs.take(4, 2), "taken twice");
  EXPECT_DEATH(runs.give_back(5), "freed twice");
}

TEST(MaxTree, First_position_of_at_least_a_value_is_found_while_it_grows) {
  MaxTree tree;
  EXPECT_EQ(tree.max(), 0U);
  std::vector<std::uint32_t> model;
  Rng rng(1);
  for (std::uint32_t i = 0; i < 300; ++i) {
    const auto position = static_cast<std::uint32_t>(rng.uniform(i / 3 + 1));
    if (model.size() <= position) model.resize(position + 1, 0);
    model[position] = static_cast<std::uint32_t>(rng.uniform(50));
    tree.set(position, model[position]);
    const std::uint32_t max = *std::ranges::max_element(model);
    ASSERT_EQ(tree.max(), max);
    if (max == 0) continue;
    const auto value = static_cast<std::uint32_t>(rng.between(1, max));
    const auto first = std::ranges::find_if(model, [&](std::uint32_t v) { return v >= value; });
    ASSERT_EQ(tree.first_at_least(value), first - model.begin());
  }
}

// 32 slabs of 64 KiB.
class SlotAllocatorTest : public testing::Test {
 protected:
  std::vector<SlotId> take(std::uint32_t value_len, std::uint32_t count) {
    std::vector<SlotId> slots;
    const std::uint32_t taken = allocator_.take(value_len, count, slots);
    EXPECT_EQ(taken, slots.size());
    for (const SlotId slot : slots) {
      EXPECT_EQ(segment_.area().slot(slot).load_word().state, SlotState::kFree);
      segment_.set_state(slot, SlotState::kPrepared);
      EXPECT_TRUE(segment_.geometry().in_bounds(slot, value_len));
    }
    return slots;
  }
  void give_back(std::span<const SlotId> slots) {
    for (const SlotId slot : slots) {
      segment_.set_state(slot, SlotState::kFree);
      allocator_.give_back(slot);
    }
  }
  std::uint32_t class_word(std::uint32_t slab) const {
    return segment_.area().slab(SlabId{slab}).slot_pages.load();
  }

  TestSegment segment_{2 * kMiB, 64 * kKiB};
  SlotAllocator allocator_{segment_.area()};
};

TEST_F(SlotAllocatorTest, Batch_is_one_run_of_adjacent_slots) {
  EXPECT_EQ(allocator_.common_slabs(), 32U);
  const auto batch = take(kPage, 10);
  EXPECT_EQ(run_lengths(batch), (std::vector<std::uint32_t>{10}));
  EXPECT_EQ(class_word(0), 1U);
  EXPECT_EQ(allocator_.assigned_slots(), 16U);
  EXPECT_EQ(allocator_.used_slots_of(SlabId{0}), 10U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Class_is_by_exact_pages_not_powers_of_two) {
  take(3 * kPage, 1);
  take(2 * kPage + 1, 1);
  take(1, 1);
  const auto classes = allocator_.classes();
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].slot_pages, 1U);
  EXPECT_EQ(classes[1].slot_pages, 3U);
  EXPECT_EQ(classes[1].total_slots, 5U);  // floor(64 KiB / 12 KiB)
  EXPECT_EQ(classes[1].free_slots, 3U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Batch_larger_than_a_slab_is_few_long_runs) {
  const auto batch = take(kPage, 40);
  EXPECT_EQ(batch.size(), 40U);
  EXPECT_EQ(allocator_.common_slabs(), 29U);
  std::set<std::uint32_t> distinct;
  for (const SlotId slot : batch) distinct.insert(slot.value);
  EXPECT_EQ(distinct.size(), 40U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Value_that_does_not_fit_gets_nothing) {
  EXPECT_EQ(take(64 * kKiB + 1, 1).size(), 0U);
  EXPECT_EQ(take(0, 1).size(), 0U);
  EXPECT_EQ(allocator_.available(64 * kKiB + 1), 0U);
  EXPECT_EQ(take(64 * kKiB, 1).size(), 1U);
}

TEST_F(SlotAllocatorTest, Full_pool_gives_what_is_left) {
  EXPECT_EQ(allocator_.available(kPage), 512U);
  EXPECT_EQ(take(kPage, 500).size(), 500U);
  EXPECT_EQ(allocator_.available(kPage), 12U);
  EXPECT_EQ(take(kPage, 20).size(), 12U);
  EXPECT_EQ(take(kPage, 1).size(), 0U);
  EXPECT_EQ(allocator_.available(kPage), 0U);
  EXPECT_EQ(allocator_.total_possible(kPage), 512U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Fragments_are_used_longest_run_first) {
  auto all = take(kPage, 512);
  std::ranges::sort(all);
  // Free runs of 3, 5 and 2.
  std::vector<SlotId> freed;
  for (const auto& [first, count] : {std::pair{20, 3}, {100, 5}, {300, 2}})
    for (int i = 0; i < count; ++i) freed.push_back(all[static_cast<std::size_t>(first + i)]);
  give_back(freed);
  const auto batch = take(kPage, 9);
  EXPECT_EQ(run_lengths(batch), (std::vector<std::uint32_t>{5, 3, 1}));
  EXPECT_EQ(take(kPage, 5).size(), 1U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Run_long_enough_is_found_wherever_it_is) {
  auto all = take(kPage, 512);
  std::ranges::sort(all);
  std::vector<SlotId> freed;
  for (std::size_t i = 0; i < 256; i += 2) freed.push_back(all[i]);  // 128 single slots
  for (std::size_t i = 480; i < 492; ++i) freed.push_back(all[i]);   // one run of 12
  give_back(freed);
  EXPECT_EQ(run_lengths(take(kPage, 12)), (std::vector<std::uint32_t>{12}));
  EXPECT_EQ(run_lengths(take(kPage, 4)), (std::vector<std::uint32_t>{1, 1, 1, 1}));
}

TEST_F(SlotAllocatorTest, Wholly_free_slab_of_another_class_is_taken_at_once) {
  auto all = take(kPage, 512);
  std::ranges::sort(all);
  EXPECT_EQ(allocator_.available(2 * kPage), 0U);
  EXPECT_EQ(take(2 * kPage, 1).size(), 0U);
  give_back(std::span(all).subspan(16 * 7, 15));
  EXPECT_EQ(take(2 * kPage, 1).size(), 0U);  // one slot of the slab is still used
  give_back(std::span(all).subspan(16 * 7 + 15, 1));
  EXPECT_EQ(allocator_.available(2 * kPage), 8U);
  EXPECT_EQ(take(2 * kPage, 9).size(), 8U);
  EXPECT_EQ(class_word(7), 2U);
  EXPECT_EQ(allocator_.class_pages_of(SlabId{7}), 2U);
  EXPECT_EQ(allocator_.assigned_slots(), 31 * 16 + 8U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Own_free_slabs_are_not_taken_from_a_class_by_itself) {
  const auto batch = take(kPage, 512);
  give_back(batch);
  EXPECT_EQ(allocator_.available(kPage), 512U);
  EXPECT_EQ(take(kPage, 512).size(), 512U);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Free_slabs_go_back_to_the_pool_but_for_the_kept_class) {
  give_back(take(kPage, 64));
  give_back(take(2 * kPage, 16));
  const auto held = take(3 * kPage, 1);
  EXPECT_EQ(allocator_.common_slabs(), 32 - 4 - 2 - 1U);
  EXPECT_EQ(allocator_.release_free_slabs(1, 1), 1U);
  EXPECT_EQ(allocator_.release_free_slabs(1, 100), 1U);
  EXPECT_EQ(allocator_.release_free_slabs(0, 100), 4U);
  EXPECT_EQ(allocator_.common_slabs(), 31U);
  EXPECT_EQ(allocator_.classes().size(), 1U);  // a class without slabs is gone
  EXPECT_EQ(class_word(0), 0U);
  give_back(held);
  allocator_.validate();
}

TEST_F(SlotAllocatorTest, Recovery_reads_classes_and_marks_what_is_used) {
  const auto a = take(kPage, 20);
  const auto b = take(3 * kPage, 7);
  give_back(std::span(a).first(4));

  SlotAllocator recovered(segment_.area());
  for (const auto& slots : {std::span(a).subspan(4), std::span(b)})
    for (const SlotId slot : slots) recovered.mark_used(slot);
  recovered.validate();
  EXPECT_EQ(recovered.assigned_slots(), allocator_.assigned_slots());
  EXPECT_EQ(recovered.common_slabs(), allocator_.common_slabs());
  EXPECT_EQ(recovered.available(kPage), allocator_.available(kPage));
  std::vector<SlotId> next;
  EXPECT_EQ(recovered.take(kPage, 4, next), 4U);
  for (const SlotId slot : next)
    EXPECT_EQ(segment_.area().slot(slot).load_word().state, SlotState::kFree);
}

TEST(SlotAllocator, More_size_classes_than_the_limit_are_refused) {
  TestSegment segment(1'200 * kMiB, 2 * kMiB);
  const Geometry geometry = segment.geometry();
  ASSERT_LT(geometry.slab_count, kMaxSizeClasses);
  SlotAllocator few(segment.area());
  std::vector<SlotId> slots;
  std::uint32_t classes = 0;
  for (std::uint32_t pages = 1; pages <= kMaxSizeClasses + 20; ++pages)
    classes += few.take(pages * kPage, 1, slots);
  EXPECT_EQ(classes, geometry.slab_count);  // slabs end before classes do

  TestSegment wide(std::uint64_t{300} * 512 * kMiB, 8 * kMiB);
  SlotAllocator many(wide.area());
  ASSERT_GT(wide.geometry().slab_count, kMaxSizeClasses);
  classes = 0;
  for (std::uint32_t pages = 1'000; pages < 1'000 + kMaxSizeClasses + 20; ++pages)
    classes += many.take(pages * kPage, 1, slots);
  EXPECT_EQ(classes, kMaxSizeClasses);
  EXPECT_EQ(many.available(5'000 * kPage), 0U);
}

TEST_F(SlotAllocatorTest, Random_classes_never_hand_out_a_slot_twice) {
  Rng rng(4);
  std::vector<std::vector<SlotId>> batches;
  std::set<std::uint32_t> used;
  for (int step = 0; step < 4'000; ++step) {
    if (rng.chance(0.5)) {
      const auto value_len = static_cast<std::uint32_t>(rng.between(1, 5) * kPage);
      const std::uint64_t available = allocator_.available(value_len);
      const auto count = static_cast<std::uint32_t>(rng.between(1, 40));
      auto batch = take(value_len, count);
      ASSERT_EQ(batch.size(), std::min<std::uint64_t>(count, available));
      for (const SlotId slot : batch) ASSERT_TRUE(used.insert(slot.value).second);
      batches.push_back(std::move(batch));
    } else if (!batches.empty()) {
      std::swap(batches[rng.uniform(batches.size())], batches.back());
      give_back(batches.back());
      for (const SlotId slot : batches.back()) used.erase(slot.value);
      batches.pop_back();
    }
    if (rng.chance(0.02))
      allocator_.release_free_slabs(static_cast<std::uint32_t>(rng.uniform(6)), 3);
    if (step % 100 == 0) allocator_.validate();
  }
}

}  // namespace
}  // namespace orlop::segment
