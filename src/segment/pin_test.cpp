// SPDX-License-Identifier: Apache-2.0
#include "segment/pin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>

#include "base/planted.h"
#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

constexpr NamespaceIndex kNs = TestSegment::kNs;

class PinTest : public testing::Test {
 protected:
  PinTest() {
    segment_.assign_all_slabs();
    segment_.index().ensure_capacity(512);
    segment_.punch_idle_place();
  }
  // Pages number 1..count in the slots 1..count.
  std::vector<KeyId> commit_pages(std::uint32_t count) {
    std::vector<KeyId> keys;
    for (std::uint32_t i = 1; i <= count; ++i) {
      segment_.commit(SlotId{i}, test_key(i));
      keys.push_back(test_key(i));
    }
    return keys;
  }
  PinResult pin(std::span<const KeyId> keys) { return reader_.pin(segment_.area(), keys); }
  // Cells of the last pin that are not empty.
  std::uint32_t filled_cells() const {
    std::uint32_t filled = 0;
    for (std::size_t i = 0; i < reader_.cells().size(); ++i) filled += reader_.cell(i) != 0 ? 1 : 0;
    return filled;
  }
  bool retire(SlotId slot) { return segment_.retire(slot, {&reader_.view(), 1}); }

  TestSegment segment_;
  TestReader reader_;
};

TEST_F(PinTest, Resident_pages_are_all_pinned_with_their_fields) {
  const auto keys = commit_pages(200);
  const PinResult result = pin(keys);
  EXPECT_EQ(result.pinned, 200U);
  EXPECT_EQ(result.stop, PinStop::kAllHit);
  for (std::uint32_t i = 0; i < 200; ++i) {
    EXPECT_EQ(reader_.pinned()[i].slot, SlotId{i + 1});
    EXPECT_EQ(reader_.pinned()[i].generation, Generation{1});
    EXPECT_EQ(reader_.pinned()[i].value_len, TestSegment::kValueLen);
    EXPECT_EQ(reader_.pinned()[i].checksum, keys[i].lo);
    EXPECT_EQ(reader_.cell(i), (LedgerCell{SlotId{i + 1}, Generation{1}}.pack()));
  }
  reader_.release();
  EXPECT_EQ(filled_cells(), 0U);
}

TEST_F(PinTest, No_keys_pin_nothing) {
  const PinResult result = pin({});
  EXPECT_EQ(result.pinned, 0U);
  EXPECT_EQ(result.stop, PinStop::kAllHit);
}

// The miss at every place, around the edges of the batches too.
TEST_F(PinTest, First_miss_ends_the_prefix_and_cells_behind_it_are_empty) {
  const auto keys = commit_pages(150);
  for (const std::uint32_t miss : {0U, 1U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 128U, 149U}) {
    auto asked = keys;
    asked[miss] = test_key(10'000 + miss);
    const PinResult result = pin(asked);
    EXPECT_EQ(result.pinned, miss);
    EXPECT_EQ(result.stop, PinStop::kNotFound);
    EXPECT_EQ(filled_cells(), miss);
    reader_.release();
  }
}

TEST_F(PinTest, Retiring_page_ends_the_prefix) {
  const auto keys = commit_pages(100);
  segment_.set_state(SlotId{41}, SlotState::kRetiring);
  EXPECT_EQ(pin(keys).pinned, 40U);
  EXPECT_EQ(filled_cells(), 40U);
}

TEST_F(PinTest, Other_namespace_sees_nothing) {
  const auto keys = commit_pages(3);
  std::vector<std::uint32_t> cells{0, 1, 2};
  std::vector<PinnedSlot> out(3);
  EXPECT_EQ(pin_prefix(segment_.area(), reader_.view(), cells, keys, NamespaceIndex{2}, out).pinned,
            0U);
}

TEST_F(PinTest, Key_behind_a_colliding_tag_is_pinned) {
  const KeyId a = test_key(1);
  const KeyId b{a.lo, a.hi ^ (1ULL << 40)};  // same bucket, same tag
  segment_.commit(SlotId{5}, a);
  segment_.commit(SlotId{6}, b);
  const KeyId asked[] = {b, a};
  EXPECT_EQ(pin(asked).pinned, 2U);
  EXPECT_EQ(reader_.pinned()[0].slot, SlotId{6});
  EXPECT_EQ(reader_.pinned()[1].slot, SlotId{5});
}

TEST_F(PinTest, Full_segment_with_overflowed_buckets_is_pinned_whole) {
  const auto keys = commit_pages(512);
  EXPECT_EQ(pin(keys).pinned, 512U);
}

TEST_F(PinTest, Pinned_slot_survives_retirement_until_it_is_released) {
  const auto keys = commit_pages(3);
  ASSERT_EQ(pin(keys).pinned, 3U);
  EXPECT_FALSE(retire(SlotId{2}));
  EXPECT_TRUE(segment_.area().slot(SlotId{2}).load_word().readable());
  reader_.release();
  EXPECT_TRUE(retire(SlotId{2}));
  EXPECT_EQ(pin(keys).pinned, 1U);
}

TEST_F(PinTest, Cell_of_an_old_generation_holds_nothing_back) {
  const auto keys = commit_pages(1);
  ASSERT_EQ(pin(keys).pinned, 1U);
  const std::uint32_t cell = reader_.cells()[0];
  reader_.release();
  ASSERT_TRUE(retire(SlotId{1}));
  segment_.commit(SlotId{1}, test_key(9));
  reader_.view().cells()[cell].store(LedgerCell{SlotId{1}, Generation{1}}.pack());
  EXPECT_TRUE(retire(SlotId{1}));
}

// Commit stores from the last member to the first, retirement from the first to the last; the
// server may die between any two stores.
TEST_F(PinTest, Half_a_group_is_never_entered_by_a_prefix_reader) {
  const auto keys = commit_pages(6);  // one group
  for (std::uint32_t stored = 1; stored <= 6; ++stored) {
    segment_.set_state(SlotId{stored}, SlotState::kRetiring);
    EXPECT_EQ(pin(keys).pinned, 0U);
  }
  for (std::uint32_t stored = 6; stored > 1; --stored) {
    segment_.set_state(SlotId{stored}, SlotState::kCommitted);
    EXPECT_EQ(pin(keys).pinned, 0U);
  }
  segment_.set_state(SlotId{1}, SlotState::kCommitted);
  EXPECT_EQ(pin(keys).pinned, 6U);
}

TEST_F(PinTest, Probe_tells_presence_of_every_key_and_pins_nothing) {
  auto keys = commit_pages(150);
  for (const std::uint32_t miss : {70U, 71U, 149U}) keys[miss] = test_key(10'000 + miss);
  std::vector<std::uint64_t> bitmap(3, ~std::uint64_t{0});
  EXPECT_EQ(probe(segment_.area(), keys, kNs, bitmap), 70U);
  EXPECT_EQ(bitmap[0], ~std::uint64_t{0});
  EXPECT_EQ(bitmap[1], ~(std::uint64_t{3} << 6));
  EXPECT_EQ(bitmap[2], (std::uint64_t{1} << 21) - 1);
  std::uint64_t pinned = 0;
  scan_ledger(reader_.view(), {}, &pinned, [](const LedgerCell&) {});
  EXPECT_EQ(pinned, 0U);
}

TEST_F(PinTest, Probe_of_all_and_of_none) {
  const auto keys = commit_pages(64);
  std::uint64_t bitmap[1];
  EXPECT_EQ(probe(segment_.area(), keys, kNs, bitmap), 64U);
  EXPECT_EQ(bitmap[0], ~std::uint64_t{0});
  EXPECT_EQ(probe(segment_.area(), keys, NamespaceIndex{9}, bitmap), 0U);
  EXPECT_EQ(bitmap[0], 0U);
  EXPECT_EQ(probe(segment_.area(), {}, kNs, {}), 0U);
}

#ifdef ORLOP_SIMULATION

// Runs an action once, just before the first access of one kind to one address; plain otherwise.
class ActBefore : public AtomicHooks {
 public:
  enum class What { kLoad, kStore, kFence };
  ActBefore(What what, const void* address, std::function<void()> action)
      : what_(what), address_(address), action_(std::move(action)) {
    g_atomic_hooks = this;
  }
  ~ActBefore() override { g_atomic_hooks = nullptr; }
  bool acted() const { return !action_; }

  std::uint64_t load(const void* address, unsigned bytes) override {
    act(What::kLoad, address);
    std::uint64_t value = 0;
    std::memcpy(&value, address, bytes);
    return value;
  }
  void store(void* address, unsigned bytes, std::uint64_t value) override {
    act(What::kStore, address);
    std::memcpy(address, &value, bytes);
  }
  void before_rmw(void*, unsigned) override {}
  void fence() override { act(What::kFence, nullptr); }

 private:
  void act(What what, const void* address) {
    if (!action_ || what != what_ || address != address_) return;
    const auto action = std::exchange(action_, nullptr);
    g_atomic_hooks = nullptr;  // the action's own accesses are another process's
    action();
    g_atomic_hooks = this;
  }
  What what_;
  const void* address_;
  std::function<void()> action_;
};

class PinRaceTest : public PinTest {
 protected:
  ~PinRaceTest() override { g_planted_bug = PlantedBug::kNone; }
  const void* word_of(SlotId slot) const { return &segment_.area().slot(slot).word; }
  // The slot is freed and given to another page.
  void reuse(SlotId slot, std::uint64_t number) {
    ASSERT_TRUE(retire(slot));
    segment_.commit(slot, test_key(number));
  }
};

TEST_F(PinRaceTest, Retirement_before_the_cell_is_a_miss_and_the_cell_is_empty_again) {
  const auto keys = commit_pages(3);
  bool freed = false;
  const ActBefore hook(ActBefore::What::kFence, nullptr, [&] {
    // As if the cell of page 2 came too late for the scan.
    const std::uint32_t cell = reader_.cells()[1];
    const std::uint64_t held = reader_.view().cells()[cell].exchange(0);
    freed = retire(SlotId{2});
    reader_.view().cells()[cell].store(held);
  });
  const PinResult result = pin(keys);
  EXPECT_TRUE(hook.acted());
  EXPECT_TRUE(freed);
  EXPECT_EQ(result.pinned, 1U);
  EXPECT_EQ(result.stop, PinStop::kRaced);
  EXPECT_EQ(filled_cells(), 1U);
}

TEST_F(PinRaceTest, Retirement_after_the_cell_restores_the_slot) {
  const auto keys = commit_pages(3);
  bool freed = true;
  const ActBefore hook(ActBefore::What::kFence, nullptr, [&] { freed = retire(SlotId{2}); });
  EXPECT_EQ(pin(keys).pinned, 3U);
  EXPECT_TRUE(hook.acted());
  EXPECT_FALSE(freed);
}

TEST_F(PinRaceTest, Slot_reused_between_hint_and_word_is_a_miss) {
  const auto keys = commit_pages(3);
  const ActBefore hook(ActBefore::What::kLoad, word_of(SlotId{2}), [&] { reuse(SlotId{2}, 99); });
  const PinResult result = pin(keys);
  EXPECT_TRUE(hook.acted());
  EXPECT_EQ(result.pinned, 1U);
  EXPECT_EQ(result.stop, PinStop::kNotFound);
}

// The same page, but the cell names the generation before: the next scan would not find it.
TEST_F(PinRaceTest, Page_put_again_in_its_slot_is_not_held_by_the_old_cell) {
  const auto keys = commit_pages(3);
  const ActBefore hook(ActBefore::What::kFence, nullptr, [&] {
    const std::uint32_t cell = reader_.cells()[1];
    const std::uint64_t held = reader_.view().cells()[cell].exchange(0);
    reuse(SlotId{2}, 2);
    reader_.view().cells()[cell].store(held);
  });
  const PinResult result = pin(keys);
  EXPECT_EQ(result.pinned, 1U);
  EXPECT_EQ(result.stop, PinStop::kRaced);
}

TEST_F(PinRaceTest, Planted_missing_identity_check_pins_another_page) {
  g_planted_bug = PlantedBug::kIdentityNotRechecked;
  const auto keys = commit_pages(3);
  const ActBefore hook(ActBefore::What::kLoad, word_of(SlotId{2}), [&] { reuse(SlotId{2}, 99); });
  EXPECT_EQ(pin(keys).pinned, 3U);
  EXPECT_EQ(segment_.area().slot(reader_.pinned()[1].slot).load_key(), test_key(99));
}

TEST_F(PinRaceTest, Page_moved_to_another_slot_between_hint_and_word_is_found_there) {
  const auto keys = commit_pages(3);
  const ActBefore hook(ActBefore::What::kLoad, word_of(SlotId{2}), [&] {
    reuse(SlotId{2}, 99);
    segment_.commit(SlotId{50}, keys[1]);
  });
  EXPECT_EQ(pin(keys).pinned, 3U);
  EXPECT_EQ(reader_.pinned()[1].slot, SlotId{50});
}

// 2^32 reuses between look-up and re-check: the generation agrees again, the identity does not.
TEST_F(PinRaceTest, Generation_that_wrapped_is_told_by_the_identity) {
  const auto keys = commit_pages(3);
  const ActBefore hook(ActBefore::What::kFence, nullptr, [&] {
    SlotRow& row = segment_.area().slot(SlotId{2});
    SlotFields other = row.load_fields();
    other.key = test_key(99);
    row.store_fields(other);
  });
  const PinResult result = pin(keys);
  EXPECT_EQ(result.pinned, 1U);
  EXPECT_EQ(result.stop, PinStop::kRaced);
  EXPECT_EQ(filled_cells(), 1U);
}

TEST_F(PinRaceTest, Index_that_switched_during_the_look_up_is_asked_again) {
  TestSegment segment;
  segment.assign_all_slabs();
  segment.index().ensure_capacity(40);
  segment.punch_idle_place();
  std::vector<KeyId> keys;
  for (std::uint32_t i = 1; i <= 30; ++i) {
    segment.commit(SlotId{i}, test_key(i));
    keys.push_back(test_key(i));
  }
  const IndexWord word = segment.area().index_word();
  const std::uint32_t home = index_hash(keys[7], kNs).bucket & ((1U << word.log2) - 1);
  std::uint64_t bitmap[1];
  {
    const ActBefore hook(ActBefore::What::kLoad,
                         &segment.area().index_place(word.place)[home].entry[0], [&] {
                           segment.index().ensure_capacity(512);
                           while (segment.index().growing()) segment.index().grow_slice(4);
                           segment.punch_idle_place();  // the place being read is empty now
                         });
    EXPECT_EQ(reader_.pin(segment.area(), keys).pinned, 30U);
    EXPECT_TRUE(hook.acted());
  }
  EXPECT_EQ(probe(segment.area(), keys, kNs, bitmap), 30U);
}

TEST_F(PinRaceTest, Probe_asks_again_after_an_index_switch) {
  TestSegment segment;
  segment.assign_all_slabs();
  segment.index().ensure_capacity(40);
  segment.punch_idle_place();
  std::vector<KeyId> keys;
  for (std::uint32_t i = 1; i <= 30; ++i) {
    segment.commit(SlotId{i}, test_key(i));
    keys.push_back(test_key(i));
  }
  const IndexWord word = segment.area().index_word();
  const std::uint32_t home = index_hash(keys[0], kNs).bucket & ((1U << word.log2) - 1);
  const ActBefore hook(ActBefore::What::kLoad,
                       &segment.area().index_place(word.place)[home].entry[0], [&] {
                         segment.index().ensure_capacity(512);
                         while (segment.index().growing()) segment.index().grow_slice(4);
                         segment.punch_idle_place();
                       });
  std::uint64_t bitmap[1];
  EXPECT_EQ(probe(segment.area(), keys, kNs, bitmap), 30U);
  EXPECT_TRUE(hook.acted());
}

#endif  // ORLOP_SIMULATION

}  // namespace
}  // namespace orlop::segment
