// SPDX-License-Identifier: Apache-2.0
// Every policy that make_policy() knows, driven by the same seeded random operations beside a plain
// model (policy_model.h) and a second instance of itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "eviction/policy.h"
#include "eviction/policy_model.h"

namespace orlop {
namespace {

constexpr std::uint32_t kSlots = 60;  // few, so that slots are reused all the time
constexpr std::array<std::uint32_t, 3> kSlotSizePages = {1, 3, 1152};

std::unique_ptr<Policy> policy_named(std::string_view name, std::uint32_t max_slot_id) {
  auto made = make_policy(name, max_slot_id);
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

class RandomRun {
 public:
  RandomRun(std::string_view name, std::uint64_t seed)
      : rng_(seed), policy_(policy_named(name, kSlots)), twin_(policy_named(name, kSlots)) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step();
      check();
    }
    while (!held_.empty() && !testing::Test::HasFailure()) settle_one();
    check();
    EXPECT_EQ(policy_->counters().pending, 0u);
    EXPECT_EQ(policy_->counters().pending_bytes, 0u);
    abandon_after_failure();
  }

  std::uint64_t restored() const { return policy_->counters().restored; }
  std::uint64_t obsolete() const { return policy_->counters().obsolete; }
  std::uint64_t freed() const { return policy_->counters().freed; }

 private:
  struct Held {
    Victim mine;
    Victim twin;
    bool removed_meanwhile = false;
  };

  void step() {
    const std::uint64_t dice = rng_.uniform(100);
    if (dice < 30) return put();
    if (dice < 50) return touch();
    if (dice < 56) return pin();
    if (dice < 64) return unpin();
    if (dice < 70) return remove();
    if (dice < 84) return evict();
    if (!held_.empty()) settle_one();
  }

  GroupRef any_slot() { return GroupRef{static_cast<std::uint32_t>(rng_.between(1, kSlots))}; }

  std::optional<GroupRef> unused_slot() {
    const std::uint32_t start = any_slot().value;
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      const std::uint32_t slot = (start + i) % kSlots + 1;
      if (model_.unused(slot)) return GroupRef{slot};
    }
    return std::nullopt;
  }

  // A chain of one to four groups under any present group (or none), inserted tail first. Now and
  // then the rest of a put never comes, as when its commit fails half way.
  void put() {
    GroupRef parent = any_slot();
    if (model_.find(parent) == nullptr) parent = GroupRef{};
    std::vector<GroupInfo> chain;
    const std::uint64_t length = rng_.between(1, 4);
    std::vector<GroupRef> taken;
    for (std::uint64_t i = 0; i < length; ++i) {
      const auto slot = unused_slot_except(taken);
      if (!slot) break;
      taken.push_back(*slot);
      const auto class_id = static_cast<std::uint16_t>(rng_.uniform(kSlotSizePages.size()));
      chain.push_back({*slot, parent, static_cast<std::uint32_t>(rng_.between(1, 40)),
                       kSlotSizePages[class_id], class_id});
      parent = *slot;
    }
    const bool fails = rng_.chance(0.1);
    for (std::size_t i = chain.size(); i-- > 0;) {
      if (fails && i == 0 && chain.size() > 1) {
        gone_both(chain[i].group);  // awaited in vain
        return;
      }
      model_.inserted(chain[i]);
      policy_->inserted(chain[i]);
      twin_->inserted(chain[i]);
      if (rng_.chance(0.1)) evict();  // while a parent is still awaited
    }
  }

  std::optional<GroupRef> unused_slot_except(const std::vector<GroupRef>& taken) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const auto slot = unused_slot();
      if (slot && std::find(taken.begin(), taken.end(), *slot) == taken.end()) return slot;
    }
    return std::nullopt;
  }

  void touch() {
    const GroupRef slot = rng_.chance(0.05) ? GroupRef{kSlots + 7} : any_slot();
    model_.accessed(slot);
    policy_->accessed(slot);
    twin_->accessed(slot);
  }
  void pin() {
    const GroupRef slot = any_slot();
    model_.pinned(slot);
    policy_->pinned(slot);
    twin_->pinned(slot);
  }
  void unpin() {
    const GroupRef slot = any_slot();
    model_.unpinned(slot);
    policy_->unpinned(slot);
    twin_->unpinned(slot);
  }
  void remove() {
    const GroupRef slot = any_slot();
    if (model_.awaited(slot.value)) return;  // put() settles its promises itself
    for (Held& held : held_) {
      if (held.mine.group() == slot && !held.removed_meanwhile) held.removed_meanwhile = true;
    }
    gone_both(slot);
  }
  void gone_both(GroupRef slot) {
    model_.gone(slot);
    policy_->removed(slot);
    twin_->removed(slot);
  }

  void evict() {
    const auto class_id = static_cast<std::uint16_t>(rng_.uniform(kSlotSizePages.size()));
    const std::uint64_t bytes = rng_.uniform(100) * kSlotSizePages[class_id] * kPageBytes;
    const auto max_groups = static_cast<std::uint32_t>(rng_.uniform(6));
    std::vector<Victim> mine;
    std::vector<Victim> twin;
    const std::uint64_t got = policy_->evict_some(class_id, bytes, max_groups, mine);
    EXPECT_EQ(twin_->evict_some(class_id, bytes, max_groups, twin), got);
    EXPECT_EQ(mine.size(), twin.size());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i].group(), twin[i].group()) << "not deterministic";
      EXPECT_LT(sum, bytes) << "selected more than asked";
      expect_allowed(mine[i], class_id);
      sum += mine[i].bytes();
      held_.push_back({std::move(mine[i]), std::move(twin[i])});
    }
    EXPECT_EQ(sum, got);
    EXPECT_LE(mine.size(), max_groups);
    if (got < bytes && mine.size() < max_groups) {
      EXPECT_FALSE(model_.least_recent(class_id).has_value()) << "something could still leave";
    }
  }

  void expect_allowed(const Victim& victim, std::uint16_t class_id) {
    PolicyModel::Group* group = model_.find(victim.group());
    ASSERT_NE(group, nullptr) << "selected what is not resident";
    EXPECT_NE(group->state, PolicyModel::State::kPinned) << "selected a pinned group";
    EXPECT_TRUE(model_.may_leave(*group)) << "selected a parent before its children";
    EXPECT_EQ(group->info.class_id, class_id);
    EXPECT_EQ(victim.class_id(), class_id);
    EXPECT_EQ(victim.members(), group->info.members);
    EXPECT_EQ(victim.bytes(), PolicyModel::bytes_of(group->info));
    model_.selected(victim.group());
  }

  // In any order, not only that of the selection.
  void settle_one() {
    const auto at = held_.begin() + static_cast<std::ptrdiff_t>(rng_.uniform(held_.size()));
    Held held = std::move(*at);
    held_.erase(at);
    const GroupRef slot = held.mine.group();
    if (held.removed_meanwhile) {
      EXPECT_FALSE(policy_->has_resident_children(held.mine));
      policy_->obsolete(std::move(held.mine));
      twin_->obsolete(std::move(held.twin));
      return;
    }
    EXPECT_EQ(policy_->has_resident_children(held.mine),
              model_.has_resident_children(*model_.find(slot)));
    const std::uint64_t dice = rng_.uniform(10);
    if (dice < 6) {
      model_.gone(slot);
      policy_->freed(std::move(held.mine));
      twin_->freed(std::move(held.twin));
    } else if (dice < 9) {
      model_.restored(slot);
      policy_->restored_pinned(std::move(held.mine));
      twin_->restored_pinned(std::move(held.twin));
    } else {
      model_.gone(slot);
      policy_->obsolete(std::move(held.mine));
      twin_->obsolete(std::move(held.twin));
    }
  }

  void check() {
    model_.forget_unneeded_promises();
    policy_->validate();
    const Policy::Counters& c = policy_->counters();
    EXPECT_EQ(c.selected, c.freed + c.restored + c.obsolete + c.pending);
    EXPECT_EQ(c.pending, held_.size());
    for (std::uint16_t class_id = 0; class_id < kSlotSizePages.size(); ++class_id) {
      EXPECT_EQ(policy_->resident_bytes(class_id), model_.resident_bytes(class_id));
      EXPECT_EQ(policy_->oldest(class_id), twin_->oldest(class_id));
      if (model_.least_recent(class_id)) {
        EXPECT_TRUE(policy_->oldest(class_id).has_value());
      }
    }
  }

  // A failed run leaves victims; dropping them would stop the process and hide the failure.
  void abandon_after_failure() {
    for (Held& held : held_) {
      policy_->obsolete(std::move(held.mine));
      twin_->obsolete(std::move(held.twin));
    }
    held_.clear();
  }

  Rng rng_;
  PolicyModel model_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> twin_;  // same calls, must give the same answers
  std::deque<Held> held_;
};

class PolicyConformance : public testing::TestWithParam<std::string_view> {
 protected:
  std::unique_ptr<Policy> make(std::uint32_t max_slot_id) {
    return policy_named(GetParam(), max_slot_id);
  }
};

TEST_P(PolicyConformance, Random_operations_agree_with_model) {
  std::uint64_t freed = 0;
  std::uint64_t restored = 0;
  std::uint64_t obsolete = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun run(GetParam(), seed);
    run.run(1500);
    freed += run.freed();
    restored += run.restored();
    obsolete += run.obsolete();
  }
  EXPECT_GT(freed, 1000u);  // the workload reaches all three ends
  EXPECT_GT(restored, 1000u);
  EXPECT_GT(obsolete, 100u);
}

TEST_P(PolicyConformance, Chain_inserted_tail_first_leaves_leaf_first_in_one_call) {
  auto policy = make(10);
  for (std::uint32_t slot = 5; slot >= 1; --slot) {
    policy->inserted({GroupRef{slot}, GroupRef{slot - 1}, 1, 1, 0});
  }
  std::vector<Victim> victims;
  EXPECT_EQ(policy->evict_some(0, 100 * kPageBytes, 100, victims), 5 * kPageBytes);
  ASSERT_EQ(victims.size(), 5u);
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(victims[i].group(), GroupRef{5 - i});
  for (Victim& victim : victims) policy->freed(std::move(victim));
  policy->validate();
  EXPECT_EQ(policy->resident_bytes(0), 0u);
  EXPECT_FALSE(policy->oldest(0).has_value());
}

TEST_P(PolicyConformance, Restored_child_holds_selected_parent) {
  auto policy = make(10);
  policy->inserted({GroupRef{2}, GroupRef{1}, 1, 1, 0});
  policy->inserted({GroupRef{1}, GroupRef{}, 1, 1, 0});
  std::vector<Victim> victims;
  policy->evict_some(0, 2 * kPageBytes, 2, victims);
  ASSERT_EQ(victims.size(), 2u);
  EXPECT_FALSE(policy->has_resident_children(victims[1]));
  policy->restored_pinned(std::move(victims[0]));
  EXPECT_TRUE(policy->has_resident_children(victims[1]));
  policy->restored_pinned(std::move(victims[1]));
  victims.clear();
  policy->unpinned(GroupRef{1});
  EXPECT_EQ(policy->evict_some(0, kPageBytes, 1, victims), 0u) << "its child is pinned";
  policy->unpinned(GroupRef{2});
  EXPECT_EQ(policy->evict_some(0, 9 * kPageBytes, 9, victims), 2 * kPageBytes);
  for (Victim& victim : victims) policy->freed(std::move(victim));
  policy->validate();
}

// The time limit of the test is the assertion: work that grows with the pinned or held entries of
// each call would be 10^10 steps.
TEST_P(PolicyConformance, Many_pinned_and_held_groups_cost_a_call_nothing) {
  constexpr std::uint32_t kPairs = 100'000;
  auto policy = make(2 * kPairs);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    const GroupRef child{2 * i + 2};
    const GroupRef parent{2 * i + 1};
    policy->inserted({child, parent, 1, 1, 0});
    policy->inserted({parent, GroupRef{}, 1, 1, 0});
    policy->pinned(child);
  }
  std::vector<Victim> victims;
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    ASSERT_EQ(policy->evict_some(0, kPageBytes, 1, victims), 0u);
  }
  policy->validate();
}

TEST_P(PolicyConformance, Colder_class_reports_older) {
  auto policy = make(1000);
  for (std::uint32_t slot = 1; slot <= 400; ++slot) {
    policy->inserted({GroupRef{slot}, GroupRef{}, 1, 1, 0});
  }
  for (std::uint32_t slot = 401; slot <= 800; ++slot) {
    policy->inserted({GroupRef{slot}, GroupRef{}, 1, 2, 1});
  }
  EXPECT_LT(*policy->oldest(0), *policy->oldest(1));
  for (std::uint32_t slot = 1; slot <= 400; ++slot) policy->accessed(GroupRef{slot});
  EXPECT_GT(*policy->oldest(0), *policy->oldest(1));
  EXPECT_FALSE(policy->oldest(2).has_value());
  policy->validate();
}

using PolicyConformanceDeathTest = PolicyConformance;

TEST_P(PolicyConformanceDeathTest, Victim_dropped_unsettled_stops) {
  EXPECT_DEATH(
      {
        auto policy = make(10);
        policy->inserted({GroupRef{1}, GroupRef{}, 1, 1, 0});
        std::vector<Victim> victims;
        policy->evict_some(0, 1, 1, victims);
        victims.clear();
      },
      "dropped before it was settled");
}

TEST_P(PolicyConformanceDeathTest, Victim_settled_twice_stops) {
  EXPECT_DEATH(
      {
        auto policy = make(10);
        policy->inserted({GroupRef{1}, GroupRef{}, 1, 1, 0});
        std::vector<Victim> victims;
        policy->evict_some(0, 1, 1, victims);
        policy->freed(std::move(victims[0]));
        policy->freed(std::move(victims[0]));
      },
      "settled already");
}

TEST_P(PolicyConformanceDeathTest, Group_inserted_twice_stops) {
  auto policy = make(10);
  policy->inserted({GroupRef{1}, GroupRef{}, 1, 1, 0});
  EXPECT_DEATH(policy->inserted({GroupRef{1}, GroupRef{}, 1, 1, 0}), "here already");
  EXPECT_DEATH(policy->inserted({GroupRef{11}, GroupRef{}, 1, 1, 0}), "out of range");
  EXPECT_DEATH(policy->inserted({GroupRef{2}, GroupRef{}, 1, 2, 0}), "one slot size");
}

std::string param_name(const testing::TestParamInfo<std::string_view>& info) {
  return std::string(info.param);
}

INSTANTIATE_TEST_SUITE_P(All, PolicyConformance, testing::ValuesIn(policy_names()), param_name);
INSTANTIATE_TEST_SUITE_P(All, PolicyConformanceDeathTest, testing::ValuesIn(policy_names()),
                         param_name);

}  // namespace
}  // namespace orlop
