// SPDX-License-Identifier: Apache-2.0
#include "eviction/lru.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/rng.h"
#include "eviction/policy_model.h"

namespace orlop {
namespace {

GroupInfo page(std::uint32_t slot, std::uint32_t parent = 0, std::uint16_t class_id = 0) {
  return {GroupRef{slot}, GroupRef{parent}, 1, 1, class_id};
}

// Evicts up to `count` one-page groups and frees them. Returns their slots in order.
std::vector<std::uint32_t> evict(LruPolicy& lru, std::uint32_t count, std::uint16_t class_id = 0) {
  std::vector<Victim> victims;
  lru.evict_some(class_id, count * kPageBytes, count, victims);
  std::vector<std::uint32_t> slots;
  for (Victim& victim : victims) {
    slots.push_back(victim.group().value);
    lru.freed(std::move(victim));
  }
  return slots;
}

using Slots = std::vector<std::uint32_t>;

TEST(Lru, Evict_takes_least_recently_used) {
  LruPolicy lru(10);
  for (std::uint32_t slot = 1; slot <= 4; ++slot) lru.inserted(page(slot));
  lru.accessed(GroupRef{1});
  lru.accessed(GroupRef{3});
  EXPECT_EQ(evict(lru, 10), (Slots{2, 4, 1, 3}));
  lru.validate();
}

TEST(Lru, Evict_stops_at_bytes_and_at_groups) {
  LruPolicy lru(10);
  for (std::uint32_t slot = 1; slot <= 5; ++slot) {
    lru.inserted({GroupRef{slot}, GroupRef{}, 10, 2, 0});
  }
  std::vector<Victim> victims;
  EXPECT_EQ(lru.evict_some(0, 20 * kPageBytes + 1, 9, victims), 40 * kPageBytes);
  EXPECT_EQ(lru.evict_some(0, 1000 * kPageBytes, 1, victims), 20 * kPageBytes);
  EXPECT_EQ(lru.evict_some(0, 0, 9, victims), 0u);
  EXPECT_EQ(victims.size(), 3u);
  EXPECT_EQ(lru.counters().pending_bytes, 60 * kPageBytes);
  for (Victim& victim : victims) lru.obsolete(std::move(victim));
}

TEST(Lru, Parent_used_before_its_child_parks_and_leaves_right_after_it) {
  LruPolicy lru(10);
  lru.inserted(page(1));
  lru.inserted(page(2, 1));
  lru.inserted(page(3));
  EXPECT_EQ(evict(lru, 3), (Slots{2, 1, 3}));
}

TEST(Lru, Parked_parent_that_is_accessed_is_young_again) {
  LruPolicy lru(10);
  lru.inserted(page(1));
  lru.inserted(page(4));
  lru.inserted(page(2, 1));
  lru.inserted(page(3));
  EXPECT_EQ(evict(lru, 1), (Slots{4}));  // met 1 first and parked it
  lru.accessed(GroupRef{1});
  lru.validate();
  EXPECT_EQ(evict(lru, 3), (Slots{2, 3, 1}));
}

TEST(Lru, Parked_parent_returns_when_its_last_child_is_removed) {
  LruPolicy lru(10);
  lru.inserted(page(1));
  lru.inserted(page(2, 1));
  lru.inserted(page(3, 1, 1));
  lru.inserted(page(4));
  lru.pinned(GroupRef{2});
  EXPECT_EQ(evict(lru, 1), (Slots{4}));
  lru.removed(GroupRef{2});
  EXPECT_EQ(evict(lru, 1), (Slots{})) << "a child of another class still holds it";
  lru.removed(GroupRef{3});
  EXPECT_EQ(evict(lru, 1), (Slots{1}));
  lru.validate();
}

TEST(Lru, Parent_of_another_class_waits_for_its_child) {
  LruPolicy lru(10);
  lru.inserted(page(1, 0, 0));
  lru.inserted({GroupRef{2}, GroupRef{1}, 1, 7, 1});
  EXPECT_EQ(evict(lru, 1, 0), (Slots{}));
  EXPECT_EQ(evict(lru, 1, 1), (Slots{2}));
  EXPECT_EQ(evict(lru, 1, 0), (Slots{1}));
}

TEST(Lru, Unpinned_group_is_the_most_recent) {
  LruPolicy lru(10);
  for (std::uint32_t slot = 1; slot <= 3; ++slot) lru.inserted(page(slot));
  lru.pinned(GroupRef{1});
  lru.accessed(GroupRef{1});
  EXPECT_EQ(evict(lru, 1), (Slots{2}));
  lru.unpinned(GroupRef{1});
  EXPECT_EQ(evict(lru, 3), (Slots{3, 1}));
}

TEST(Lru, Removed_parent_does_not_hold_the_next_group_of_its_slot) {
  LruPolicy lru(10);
  lru.inserted(page(1));
  lru.inserted(page(2, 1));
  lru.removed(GroupRef{1});
  lru.inserted(page(1));  // another group
  lru.accessed(GroupRef{2});
  EXPECT_EQ(evict(lru, 1), (Slots{1})) << "held by the child of its predecessor";
  lru.inserted(page(1));
  lru.inserted(page(3, 1));
  EXPECT_EQ(evict(lru, 1), (Slots{2})) << "must not take a child off its successor";
  lru.validate();
  EXPECT_EQ(evict(lru, 2), (Slots{3, 1}));
}

TEST(Lru, Awaited_parent_that_never_comes_is_cut_by_removed) {
  LruPolicy lru(10);
  lru.inserted(page(2, 1));
  lru.removed(GroupRef{1});
  lru.inserted(page(1));
  lru.accessed(GroupRef{2});
  EXPECT_EQ(evict(lru, 1), (Slots{1}));
  lru.validate();
}

TEST(Lru, Removed_while_pending_lets_the_slot_serve_another_group) {
  LruPolicy lru(10);
  lru.inserted(page(1));
  lru.inserted(page(2, 1));
  std::vector<Victim> first;
  lru.evict_some(0, 2 * kPageBytes, 2, first);
  ASSERT_EQ(first.size(), 2u);
  lru.removed(GroupRef{1});  // while its child is pending too
  lru.inserted(page(1));
  std::vector<Victim> second;
  lru.evict_some(0, kPageBytes, 1, second);
  ASSERT_EQ(second.size(), 1u);
  lru.validate();
  lru.restored_pinned(std::move(first[0]));  // group 2: a root now
  lru.obsolete(std::move(first[1]));
  EXPECT_FALSE(lru.has_resident_children(second[0]));
  lru.freed(std::move(second[0]));
  lru.validate();
}

TEST(LruDeathTest, Freeing_a_victim_that_was_removed_stops) {
  EXPECT_DEATH(
      {
        LruPolicy lru(10);
        lru.inserted(page(1));
        std::vector<Victim> victims;
        lru.evict_some(0, 1, 1, victims);
        lru.removed(GroupRef{1});
        lru.freed(std::move(victims[0]));
      },
      "obsolete");
}

// One slot is a removed parent more often than its epoch can count, while children of several of
// those lives stay: none of them may ever count for a later group. (The last life's epoch is one in
// which a child was kept long before.)
TEST(Lru, Used_up_epochs_cut_old_links) {
  constexpr std::uint32_t kKeepEvery = 1000;
  constexpr std::uint32_t kLives = 2 * (LruPolicy::kMaxEpoch + 1) + kKeepEvery;
  LruPolicy lru(100);
  std::uint32_t next_orphan = 2;
  for (std::uint32_t life = 0; life < kLives; ++life) {
    lru.inserted(page(1));
    const bool keep = life % kKeepEvery == 0;
    const std::uint32_t child = keep ? next_orphan++ : 99;
    lru.inserted(page(child, 1));
    lru.removed(GroupRef{1});
    if (!keep) lru.removed(GroupRef{child});
  }
  lru.validate();
  lru.inserted(page(1));
  for (std::uint32_t orphan = 2; orphan < next_orphan; ++orphan) lru.accessed(GroupRef{orphan});
  EXPECT_EQ(evict(lru, 1), (Slots{1}));
  lru.inserted(page(1));
  lru.inserted(page(99, 1));
  EXPECT_EQ(evict(lru, next_orphan - 2).size(), next_orphan - 2);
  lru.validate();
  EXPECT_EQ(evict(lru, 5), (Slots{99, 1}));
}

// Where paths are used leaf first, root last, a parent is always younger than its children, and
// leaf-first LRU is exactly: the least recently used of the groups that may leave.
TEST(Lru, Paths_used_leaf_first_leave_in_exact_order_of_last_use) {
  constexpr std::uint32_t kSlots = 80;
  for (std::uint64_t seed = 1; seed <= 30 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    LruPolicy lru(kSlots);
    PolicyModel model;
    const auto touch_path = [&](GroupRef leaf) {
      for (GroupRef at = leaf; at; at = model.find(at)->info.parent) {
        lru.accessed(at);
        model.accessed(at);
      }
    };
    for (int step = 0; step < 3000; ++step) {
      const GroupRef slot{static_cast<std::uint32_t>(rng.between(1, kSlots))};
      if (model.find(slot) != nullptr) {
        touch_path(slot);
      } else {
        GroupRef parent{static_cast<std::uint32_t>(rng.between(1, kSlots))};
        if (model.find(parent) == nullptr) parent = GroupRef{};
        lru.inserted(page(slot.value, parent.value));
        model.inserted(page(slot.value, parent.value));
        if (parent) touch_path(parent);
      }
      if (!rng.chance(0.45)) continue;
      const auto want = model.least_recent(0);
      const Slots got = evict(lru, 1);
      ASSERT_EQ(got, Slots{want->value}) << "step " << step;
      model.gone(*want);
    }
    lru.validate();
  }
}

}  // namespace
}  // namespace orlop
