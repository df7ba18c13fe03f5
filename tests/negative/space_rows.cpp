// SPDX-License-Identifier: Apache-2.0
// Pools and ledgers that are full: a truthful outcome, never a hang.
#include <gtest/gtest.h>

#include "platform/clock.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::eventually;

// 512 slots of 4 KiB.
constexpr std::size_t kSlots = 512;
WorldOptions small_world(std::vector<std::string> more = {}) {
  WorldOptions options;
  options.daemon = {"--capacity", "2MiB", "--max-value-len", "64KiB", "--reserve", "16KiB"};
  options.daemon.insert(options.daemon.end(), more.begin(), more.end());
  return options;
}
WorldOptions greedy_world() {
  return small_world({"--max-prepared", "2MiB", "--max-pinned", "2MiB"});
}

std::size_t count(const PutPlan& plan, Outcome wanted) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) found += plan.outcome(i) == wanted ? 1 : 0;
  return found;
}

// A put that finds no space: every outcome says so, with the pool's state, and it does not hang.
void expect_no_space(Worker& worker, const Keys& keys, const std::string& words) {
  const MonoNs begun = monotonic_ns();
  auto plan = worker.client.put_start(worker.ns, keys);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  // The node waits at most 10 ms for space; the rest is the machine's load.
  EXPECT_LT(monotonic_ns() - begun, 10 * kNsPerSecond);
  EXPECT_EQ(count(*plan, Outcome::kNoSpace), keys.size());
  EXPECT_NE(plan->explanation().find("no space"), std::string_view::npos) << plan->explanation();
  EXPECT_NE(plan->explanation().find(words), std::string_view::npos) << plan->explanation();
}

Result<void> full_of_prepared(World& world) {
  Worker hog(Worker::options(world.socket(), "hog"));
  const Keys all(kSlots, "hog");
  auto plan = hog.client.put_start(hog.ns, all);
  if (!plan) return std::unexpected(plan.error());
  EXPECT_EQ(plan->prepared(), kSlots) << plan->explanation();
  expect_no_space(world.worker(), Keys(3, "late"), "prepared");
  EXPECT_TRUE(hog.client.put_abort(*plan));
  EXPECT_TRUE(eventually(
      [&] { return all_are(world.worker().put(Keys(3, "late")), Outcome::kStored); }, 10));
  return {};
}

// Also the put that is larger than everything: a part is granted, or nothing, and it is said why.
Result<void> larger_than_the_pool(World& world) {
  const Keys keys(2 * kSlots, "large");
  auto plan = world.worker().client.put_start(world.worker().ns, keys);
  if (!plan) return std::unexpected(plan.error());
  EXPECT_EQ(plan->prepared() + count(*plan, Outcome::kNoSpace) + count(*plan, Outcome::kOverQuota),
            keys.size());
  EXPECT_LE(plan->prepared(), kSlots);
  EXPECT_FALSE(plan->explanation().empty());
  return {};
}

// One group that can never fit takes nothing.
Result<void> group_larger_than_the_pool(World& world) {
  const Keys keys(2 * kSlots, "group");
  PutOptions options;
  options.atomic_group_lens = {2 * kSlots};
  auto plan = world.worker().client.put_start(world.worker().ns, keys, options);
  if (!plan) return std::unexpected(plan.error());
  EXPECT_EQ(plan->prepared(), 0U);
  EXPECT_FALSE(plan->explanation().empty());
  return {};
}

Result<void> over_quota(World& world) {
  const Keys keys(kSlots, "quota");
  auto plan = world.worker().client.put_start(world.worker().ns, keys);
  if (!plan) return std::unexpected(plan.error());
  EXPECT_EQ(plan->prepared(), kSlots / 4) << plan->explanation();
  EXPECT_EQ(count(*plan, Outcome::kOverQuota), keys.size() - kSlots / 4);
  for (const char* words : {"over quota", "worker", "commit or abort some"})
    EXPECT_NE(plan->explanation().find(words), std::string_view::npos) << plan->explanation();
  // The others are not concerned.
  Worker other(Worker::options(world.socket(), "other"));
  EXPECT_TRUE(all_are(other.put(Keys(3, "q-other")), Outcome::kStored));
  return {};
}

// Fills the pool with committed pages and returns how many of `keys` are readable.
std::size_t fill(Worker& worker, const Keys& keys) {
  const std::span<const Key> all = keys;
  for (std::size_t i = 0; i < all.size(); i += 64)
    worker.put(all.subspan(i, std::min<std::size_t>(64, all.size() - i)));
  return worker.client.exists(worker.ns, all)->prefix_len;
}

// A client that never releases, within its budget: everybody's puts go on.
Result<void> budget_pinned_by_one(World& world) {
  Worker hog(Worker::options(world.socket(), "hog"));
  const Keys kept(kSlots / 2, "kept");
  EXPECT_EQ(fill(hog, kept), kept.size());
  auto handle = hog.client.get_start(hog.ns, kept);
  EXPECT_EQ(handle->result().reason, MissReason::kPinBudget);
  EXPECT_EQ(handle->result().transferable_len, kSlots / 4);  // client.max_pinned: 25 %
  for (std::size_t round = 0; round < 24; ++round) {
    const Keys keys(64, "round", round * 64);  // three times the pool
    EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored)) << round;
    EXPECT_EQ(world.worker().get(keys).wrong, 0U);
  }
  auto plan = hog.client.get_transfer(*handle);
  EXPECT_EQ(plan->size(), kSlots / 4);
  EXPECT_EQ(Worker::wrong_pages(*plan, kept), 0U);
  return {};
}

// The whole pool may be pinned here, and is: puts of others say so until it is released.
Result<void> pool_pinned_by_one(World& world) {
  Worker hog(Worker::options(world.socket(), "hog"));
  const Keys kept(kSlots, "kept");
  fill(hog, kept);
  std::vector<ReadPlan> plans;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    auto handle = hog.client.get_start(hog.ns, std::span<const Key>(kept).subspan(i, 1));
    if (handle->result().transferable_len == 0) continue;  // evicted for the reserve
    plans.push_back(std::move(*hog.client.get_transfer(*handle)));
  }
  EXPECT_GT(plans.size(), kSlots / 2);
  // The reserve is used up first, by what cannot be evicted: a page that was just stored may go at
  // once to fill the reserve again.
  const Keys more(kSlots, "more");
  std::vector<PutPlan> held;
  bool full = false;
  for (std::size_t i = 0; i < more.size() && !full; ++i) {
    auto plan = world.worker().client.put_start(world.worker().ns,
                                                std::span<const Key>(more).subspan(i, 1));
    if (!plan) return std::unexpected(plan.error());
    full = plan->outcome(0) == Outcome::kNoSpace;
    if (!full && plan->outcome(0) != Outcome::kPrepared) {
      ADD_FAILURE() << to_string(plan->outcome(0));
      break;
    }
    held.push_back(std::move(*plan));
  }
  EXPECT_TRUE(full);
  expect_no_space(world.worker(), Keys(2, "none"), "most of it by client 'hog'");
  plans.clear();
  held.clear();
  EXPECT_TRUE(eventually(
      [&] { return all_are(world.worker().put(Keys(2, "none")), Outcome::kStored); }, 10));
  return {};
}

Result<void> ledger_full(World& world) {
  ClientOptions options = Worker::options(world.socket(), "small");
  options.ledger_cells = 64;
  Worker small(std::move(options));
  const Keys keys(200, "ledger");
  EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  auto handle = small.client.get_start(small.ns, keys);
  EXPECT_EQ(handle->result().reason, MissReason::kLedgerFull);
  EXPECT_GT(handle->result().transferable_len, 0U);
  EXPECT_LE(handle->result().transferable_len, 64U);
  auto plan = small.client.get_transfer(*handle);
  EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);
  EXPECT_TRUE(small.client.release_views(*plan));
  // All 64 cells, one by one; then none is left; then one is.
  std::vector<ReadPlan> held;
  for (std::size_t i = 0; i < 64; ++i) {
    auto one = small.client.get_start(small.ns, std::span<const Key>(keys).subspan(i, 1));
    EXPECT_EQ(one->result().transferable_len, 1U) << i;
    held.push_back(std::move(*small.client.get_transfer(*one)));
  }
  auto none = small.client.get_start(small.ns, std::span<const Key>(keys).subspan(100, 1));
  EXPECT_EQ(none->result().transferable_len, 0U);
  EXPECT_EQ(none->result().reason, MissReason::kLedgerFull);
  EXPECT_GE(small.client.stats().misses[static_cast<int>(MissReason::kLedgerFull)], 2U);
  held.pop_back();
  EXPECT_EQ(small.get(std::span<const Key>(keys).subspan(100, 1)).pages, 1U);
  return {};
}

}  // namespace

Rows space_rows() {
  using enum Item;
  return {
      {kFullPool, "full_of_prepared", {}, {}, full_of_prepared, greedy_world()},
      {kFullPool, "larger_than_the_pool", {}, {}, larger_than_the_pool, greedy_world()},
      {kFullPool, "group_larger_than_the_pool", {}, {}, group_larger_than_the_pool, greedy_world()},
      {kFullPool, "over_quota", {}, {}, over_quota, small_world()},
      {kFullPool, "budget_pinned_by_one", {}, {}, budget_pinned_by_one, small_world()},
      {kFullPool, "pool_pinned_by_one", {}, {}, pool_pinned_by_one, greedy_world()},
      {kLedgerFull, "ledger_full", {}, {}, ledger_full},
  };
}

}  // namespace orlop::negative_test
