// SPDX-License-Identifier: Apache-2.0
// liborlop against a node in this process: puts, reads, verification, limits.
#include "orlop/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "client/client_fixture.h"
#include "client/pages_mapped.h"
#include "segment/plan_blob.h"

namespace orlop::client::testing {
namespace {

constexpr auto all_of = [](const std::vector<Outcome>& outcomes, Outcome wanted) {
  return !outcomes.empty() &&
         std::all_of(outcomes.begin(), outcomes.end(), [&](Outcome o) { return o == wanted; });
};

TEST_F(ClientTest, Pages_put_are_read_back) {
  const Keys keys(100);
  EXPECT_TRUE(all_of(put(keys), Outcome::kStored));
  ReadPlan plan = read(keys);
  ASSERT_EQ(plan.size(), 100U);
  for (std::size_t i = 0; i < plan.size(); ++i) EXPECT_TRUE(holds_page(plan, i, keys[i])) << i;
  std::vector<std::byte> copy(kValueLen);
  EXPECT_TRUE(plan.copy_out(7, copy).value());
  EXPECT_EQ(copy, page_of(keys[7]));
  EXPECT_TRUE(client.release_views(plan).has_value());
  const ClientStats stats = client.stats();
  EXPECT_EQ(stats.keys_stored, 100U);
  EXPECT_EQ(stats.keys_hit, 100U);
  EXPECT_EQ(stats.pinned_bytes, 0U);
  EXPECT_EQ(stats.open_read_plans + stats.open_put_plans + stats.open_handles, 0U);
}

TEST_F(ClientTest, Memory_of_a_put_is_mapped_before_its_first_write) {
  auto plan = client.put_start(ns, Keys(40));
  ASSERT_EQ(plan->prepared(), 40U);
  for (std::size_t i = 0; i < plan->size(); ++i)
    EXPECT_EQ(pages_mapped(plan->memory(i)), kValueLen / 4096) << i;
}

TEST_F(ClientTest, Second_put_of_a_key_answers_exists_and_gets_no_memory) {
  const Keys keys(3);
  put(keys);
  auto plan = client.put_start(ns, keys);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->prepared(), 0U);
  EXPECT_EQ(plan->outcome(1), Outcome::kExists);
  EXPECT_TRUE(plan->memory(1).empty());
  const auto future = client.put_commit(*plan);
  ASSERT_TRUE(future.has_value());
  EXPECT_TRUE(future->ready());
  EXPECT_TRUE(all_of(*future->wait(Milliseconds{0}), Outcome::kExists));
}

TEST_F(ClientTest, Key_being_written_answers_in_flight_and_abort_frees_it) {
  const Keys keys(1);
  auto first = client.put_start(ns, keys);
  ASSERT_EQ(first->outcome(0), Outcome::kPrepared);
  EXPECT_EQ(client.put_start(ns, keys)->outcome(0), Outcome::kInFlight);
  EXPECT_TRUE(client.put_abort(*first).has_value());
  EXPECT_TRUE(all_of(put(keys), Outcome::kStored));
}

TEST_F(ClientTest, Group_with_an_existing_member_is_split) {
  const Keys keys(4);
  put(Keys(1));
  const std::vector<Outcome> outcomes = put(keys, {.atomic_group_lens = {2, 2}});
  EXPECT_EQ(outcomes, (std::vector<Outcome>{Outcome::kExists, Outcome::kGroupSplit,
                                            Outcome::kStored, Outcome::kStored}));
}

TEST_F(ClientTest, Bytes_written_directly_are_summed_at_commit) {
  const Keys keys(2);
  auto plan = client.put_start(ns, keys);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<std::byte> page = page_of(keys[i]);
    std::memcpy(plan->memory(i).data(), page.data(), page.size());
  }
  const auto future = client.put_commit(*plan);
  EXPECT_TRUE(all_of(*future->wait(kLong), Outcome::kStored));
  ReadPlan views = read(keys);
  EXPECT_TRUE(holds_page(views, 1, keys[1]));
}

TEST_F(ClientTest, Prefix_is_rounded_down_to_the_readers_groups) {
  put(Keys(4));
  const Keys keys(5);
  auto handle = client.get_start(ns, keys, {.atomic_group_lens = {2, 3}});
  const GetResult& result = handle->result();
  EXPECT_EQ(result.raw_prefix_hit_len, 4U);
  EXPECT_EQ(result.transferable_len, 2U);
  EXPECT_EQ(result.prefix_hit_groups, 1U);
  EXPECT_EQ(result.first_miss_index, 4U);
  EXPECT_EQ(result.first_miss_group_index, 1U);
  EXPECT_FALSE(result.all_hit);
  EXPECT_EQ(result.reason, MissReason::kGroupIncomplete);
  // What is beyond the whole groups is released at once.
  EXPECT_EQ(client.stats().pinned_bytes, 2U * kValueLen);
}

TEST_F(ClientTest, Wrong_prefix_length_leaves_the_handle_usable) {
  const Keys keys(6);
  put(keys);
  auto handle = client.get_start(ns, keys, {.atomic_group_lens = {2, 2, 2}});
  EXPECT_EQ(client.get_transfer(*handle, 3).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(client.get_transfer(*handle, 8).error().code, ErrorCode::kInvalidArgument);
  auto plan = client.get_transfer(*handle, 4);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->size(), 4U);
  EXPECT_EQ(client.stats().pinned_bytes, 4U * kValueLen);
}

TEST_F(ClientTest, Dropping_objects_ends_them) {
  const Keys keys(2);
  put(keys);
  {
    auto handle = client.get_start(ns, keys);
  }
  {
    ReadPlan plan = read(keys);
  }
  {
    auto plan = client.put_start(ns, Keys(1, "dropped"));
  }
  const ClientStats stats = client.stats();
  EXPECT_EQ(stats.pinned_bytes, 0U);
  EXPECT_EQ(stats.open_read_plans + stats.open_put_plans + stats.open_handles, 0U);
  EXPECT_TRUE(all_of(put(Keys(1, "dropped")), Outcome::kStored));
}

TEST_F(ClientTest, Exists_tells_prefix_and_bitmap_and_pins_nothing) {
  put(Keys(2));
  put(Keys(1, "k", 3));
  const auto result = client.exists(ns, Keys(5));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->prefix_len, 2U);
  EXPECT_EQ(result->present, (std::vector<bool>{true, true, false, true, false}));
  EXPECT_EQ(client.stats().pinned_bytes, 0U);
}

TEST_F(ClientTest, Removed_keys_miss_and_may_be_put_again) {
  const Keys keys(3);
  put(keys);
  EXPECT_EQ(client.remove(ns, keys).value(), 3U);
  EXPECT_EQ(read(keys).size(), 0U);
  EXPECT_TRUE(all_of(put(keys), Outcome::kStored));
}

TEST_F(ClientTest, Plan_begun_after_flush_sees_nothing_old) {
  const Keys keys(3);
  put(keys);
  auto open_put = client.put_start(ns, Keys(1, "late"));
  EXPECT_EQ(client.flush(ns).value(), 1U);
  EXPECT_EQ(read(keys).size(), 0U);
  EXPECT_TRUE(all_of(*client.put_commit(*open_put)->wait(kLong), Outcome::kFlushed));
  EXPECT_TRUE(all_of(put(keys), Outcome::kStored));
  EXPECT_EQ(client.flush_family(ns).value(), 1U);
  EXPECT_EQ(read(keys).size(), 0U);
}

TEST_F(ClientTest, Ping_goes_round) {
  EXPECT_TRUE(client.ping().has_value());
}

TEST_F(ClientTest, Second_descriptor_is_another_namespace) {
  auto other = client.open_namespace(descriptor(kValueLen, "other"));
  ASSERT_TRUE(other.has_value());
  put(Keys(2));
  EXPECT_EQ(client.exists(*other, Keys(2))->prefix_len, 0U);
  EXPECT_EQ(client.open_namespace(descriptor())->value_len(), kValueLen);
}

TEST_F(ClientTest, Damaged_page_is_a_miss_and_gets_removed) {
  const Keys keys(4);
  put(keys);
  ReadPlan plan = read(keys);
  const std::span<const std::byte> bytes = plan.view_unverified(2);
  const std::span<std::byte> all = node.value_bytes();
  const auto victim = std::search(all.begin(), all.end(), bytes.begin(), bytes.end());
  ASSERT_NE(victim, all.end());
  victim[100] ^= std::byte{1};
  std::vector<std::byte> copy(kValueLen);
  EXPECT_TRUE(plan.copy_out(1, copy).value());
  EXPECT_FALSE(plan.copy_out(2, copy).value());
  EXPECT_FALSE(plan.copy_out(3, copy).value());  // nothing after it is handed out
  EXPECT_TRUE(plan.view(3).empty());
  EXPECT_EQ(plan.valid_len(), 2U);
  EXPECT_EQ(client.stats().mismatches, 1U);
  EXPECT_TRUE(client.release_views(plan).has_value());
  // The node finds the damage itself and dooms the page.
  EXPECT_TRUE(eventually([&] { return client.exists(ns, keys)->prefix_len == 2; }));
}

TEST_F(ClientTest, Plan_blobs_name_the_views) {
  const Keys keys(3);
  put(keys);
  ReadPlan plan = read(keys);
  const auto blob = plan.blob();
  ASSERT_TRUE(blob.has_value());
  ASSERT_EQ(blob->size(), 5U);
  EXPECT_EQ((*blob)[0], segment::kPlanMagic);
  EXPECT_EQ((*blob)[1], 3U);
  EXPECT_EQ((*blob)[4], reinterpret_cast<std::uint64_t>(plan.view(2).data()));
  auto writing = client.put_start(ns, Keys(2, "k", 2));  // k2 exists, k3 is new
  const auto put_blob = writing->blob();
  ASSERT_EQ(put_blob->size(), 3U);
  EXPECT_EQ((*put_blob)[2], reinterpret_cast<std::uint64_t>(writing->memory(1).data()));
}

TEST_F(ClientTest, Released_plan_stays_pinned_until_its_copies_are_done) {
  const Keys keys(2);
  put(keys);
  ReadPlan plan = read(keys);
  const auto copy = plan.register_copy();
  const auto second = plan.register_copy();
  EXPECT_TRUE(client.release_views(plan).has_value());
  EXPECT_EQ(client.stats().pinned_bytes, 2U * kValueLen);
  EXPECT_TRUE(client.copy_done(*copy, true).has_value());
  EXPECT_EQ(client.copy_done(*copy, true).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(client.stats().open_read_plans, 1U);
  EXPECT_TRUE(client.copy_done(*second, true).has_value());
  EXPECT_EQ(client.stats().pinned_bytes, 0U);
  EXPECT_EQ(client.stats().open_read_plans, 0U);
}

TEST_F(ClientTest, Put_with_copies_is_neither_committed_nor_ended) {
  const Keys keys(1);
  auto plan = client.put_start(ns, keys);
  const auto copy = plan->register_copy();
  EXPECT_EQ(client.put_commit(*plan).error().code, ErrorCode::kWrongState);
  EXPECT_TRUE(client.put_abort(*plan).has_value());
  EXPECT_EQ(client.stats().open_put_plans, 1U);
  EXPECT_EQ(client.put_start(ns, keys)->outcome(0), Outcome::kInFlight);
  EXPECT_TRUE(client.copy_done(*copy, true).has_value());
  EXPECT_EQ(client.stats().open_put_plans, 0U);
  EXPECT_TRUE(all_of(put(keys), Outcome::kStored));
}

TEST_F(ClientTest, Commit_follows_the_copies) {
  const Keys keys(1);
  auto plan = client.put_start(ns, keys);
  const auto copy = plan->register_copy();
  EXPECT_TRUE(plan->copy_done(*copy, true).has_value());
  EXPECT_TRUE(all_of(*client.put_commit(*plan)->wait(kLong), Outcome::kStored));
}

TEST_F(ClientTest, Cohort_reads_what_every_rank_has) {
  std::vector<Namespace> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    NamespaceDescriptor d = descriptor(rank == 2 ? 2 * kValueLen : kValueLen, "cohort");
    d.tp_rank = rank;
    d.tp_size = 3;
    if (rank == 2) d.value_len = kValueLen;
    auto opened = client.open_namespace(d);
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    ranks.push_back(*opened);
    put_with(client, *opened, Keys(rank == 1 ? 3 : 5));
  }
  const Keys keys(5);
  auto handle = client.get_start_cohort(ranks, keys);
  ASSERT_TRUE(handle.has_value()) << handle.error().message;
  EXPECT_EQ(handle->result().raw_prefix_hit_len, 3U);
  EXPECT_EQ(client.stats().pinned_bytes, 9U * kValueLen);
  auto plan = client.get_transfer(*handle, 2);
  EXPECT_EQ(plan->ranks(), 3U);
  EXPECT_EQ(client.stats().pinned_bytes, 6U * kValueLen);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_FALSE(plan->view(1, rank).empty());
  EXPECT_EQ(plan->blob()->size(), 8U);
  // A page of one rank is not the same page of another: bound to the namespace.
  EXPECT_NE(plan->expected_checksum(0, 0), plan->expected_checksum(0, 1));
}

TEST_F(ClientTest, Parent_and_replication_options_are_accepted) {
  put(Keys(1));
  const Keys keys(2, "k", 1);
  EXPECT_TRUE(all_of(put(keys, {.atomic_group_lens = {2},
                                .parent = Key("k0"),
                                .replicate = true,
                                .replicate_mask = {true, true},
                                .write_through = true,
                                .deadline = {}}),
                     Outcome::kStored));
}

TEST_F(ClientTest, Two_clients_share_pages) {
  Client second(with_socket({}));
  ASSERT_TRUE(second.wait_ready(kLong));
  auto theirs = second.open_namespace(descriptor());
  put(Keys(3));
  EXPECT_EQ(second.exists(*theirs, Keys(3))->prefix_len, 3U);
  EXPECT_TRUE(all_of(put_with(second, *theirs, Keys(3)), Outcome::kExists));
}

// ---- limits ------------------------------------------------------------------------------------

class SmallLedgerTest : public ClientTest {
 protected:
  SmallLedgerTest() : ClientTest({}, {.ledger_cells = 64}) {}
};

TEST_F(SmallLedgerTest, Full_ledger_is_a_miss_with_its_reason) {
  put(Keys(100));
  ReadPlan held = read(Keys(64));
  ASSERT_EQ(held.size(), 64U);
  auto handle = client.get_start(ns, Keys(5));
  EXPECT_EQ(handle->result().raw_prefix_hit_len, 0U);
  EXPECT_EQ(handle->result().reason, MissReason::kLedgerFull);
  EXPECT_TRUE(client.release_views(held).has_value());
  EXPECT_EQ(read(Keys(64)).size(), 64U);
}

class SmallBudgetTest : public ClientTest {
 protected:
  SmallBudgetTest() : ClientTest(small_budget()) {}
  static TestNodeOptions small_budget() {
    TestNodeOptions options;
    options.machine.max_pinned_bytes = 10 * kValueLen;
    return options;
  }
};

TEST_F(SmallBudgetTest, Pins_beyond_the_budget_are_misses) {
  put(Keys(20));
  ReadPlan held = read(Keys(8));
  ASSERT_EQ(held.size(), 8U);
  auto handle = client.get_start(ns, Keys(5));
  EXPECT_EQ(handle->result().raw_prefix_hit_len, 2U);
  EXPECT_EQ(handle->result().reason, MissReason::kPinBudget);
  EXPECT_TRUE(client.cancel_get(*handle).has_value());
  EXPECT_TRUE(client.release_views(held).has_value());
  EXPECT_EQ(read(Keys(10)).size(), 10U);
}

class ShortHandleTest : public ClientTest {
 protected:
  ShortHandleTest() : ClientTest({}, {.handle_ttl = Milliseconds{1}}) {}
};

TEST_F(ShortHandleTest, Forgotten_handle_is_cancelled) {
  put(Keys(2));
  auto handle = client.get_start(ns, Keys(2));
  EXPECT_TRUE(eventually([&] { return client.stats().pinned_bytes == 0; }));
  const auto plan = client.get_transfer(*handle);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code, ErrorCode::kWrongState);
  EXPECT_EQ(client.stats().open_handles, 0U);
}

TEST_F(ClientTest, Full_pool_answers_no_space_in_time_with_the_pools_state) {
  std::vector<PutPlan> open;
  Outcome last = Outcome::kPrepared;
  for (int i = 0; i < 100 && last == Outcome::kPrepared; ++i) {
    auto plan = client.put_start(ns, Keys(64, "fill" + std::to_string(i) + "-"));
    ASSERT_TRUE(plan.has_value());
    last = plan->outcome(63);
    if (last != Outcome::kPrepared) {
      EXPECT_FALSE(plan->explanation().empty());
    }
    open.push_back(std::move(*plan));
  }
  EXPECT_TRUE(last == Outcome::kNoSpace || last == Outcome::kOverQuota);
}

}  // namespace
}  // namespace orlop::client::testing
