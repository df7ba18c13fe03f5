// SPDX-License-Identifier: Apache-2.0
// What calls answer when all is well and no other test asks: cohorts, registered copies, blobs,
// removal. Bad input is in tests/negative.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include "c_api/node_fixture.h"

namespace orlop::c_api {
namespace {

using testing::Batch;
using testing::kBatch;
using testing::kPatienceMs;
using testing::kValueLen;

class CCalls : public testing::OnNode {
 protected:
  orlop_read_plan* transfer(orlop_get_handle* handle) {
    orlop_read_plan* views = nullptr;
    EXPECT_EQ(orlop_get_transfer(client_, handle, ORLOP_WHOLE_PREFIX, &views), ORLOP_OK);
    orlop_get_handle_free(handle);
    return views;
  }
  orlop_client_stats stats() {
    orlop_client_stats stats{};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(orlop_stats(client_, &stats), ORLOP_OK);
    return stats;
  }
};

TEST_F(CCalls, Cohort_reads_what_every_rank_has) {
  std::string other_rank = testing::kDescriptor;
  other_rank.insert(1, R"("tp_rank":1,"tp_size":2,)");
  std::string first_rank = testing::kDescriptor;
  first_rank.insert(1, R"("tp_rank":0,"tp_size":2,)");
  orlop_namespace* ranks[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string& json = rank == 0 ? first_rank : other_rank;
    ASSERT_EQ(orlop_open_namespace_json(client_, {json.data(), json.size()}, &ranks[rank]),
              ORLOP_OK);
  }
  const Batch batch(1, 0);
  for (std::size_t rank = 0; rank < 2; ++rank) {  // the second rank lacks the last page
    const std::vector<unsigned char> page(kValueLen, static_cast<unsigned char>(100 + rank));
    const std::vector<orlop_bytes> buffers(kBatch, {page.data(), page.size()});
    std::array<orlop_outcome, kBatch> outcomes{};
    orlop_keys keys = batch.keys;
    keys.count = kBatch - rank;
    ASSERT_EQ(orlop_put(client_, ranks[rank], &keys, buffers.data(), keys.count, nullptr,
                        outcomes.data(), keys.count),
              ORLOP_OK);
  }
  orlop_get_handle* handle = nullptr;
  orlop_get_result found{};
  found.struct_size = sizeof found;
  const orlop_namespace* const wanted[2] = {ranks[0], ranks[1]};
  ASSERT_EQ(orlop_get_start_cohort(client_, wanted, 2, &batch.keys, nullptr, &handle, &found),
            ORLOP_OK);
  EXPECT_EQ(found.transferable_len, kBatch - 1);
  EXPECT_EQ(found.first_miss_index, kBatch - 1);
  EXPECT_EQ(found.all_hit, 0U);
  EXPECT_EQ(found.reason, ORLOP_MISS_NOT_FOUND);
  orlop_read_plan* views = transfer(handle);
  EXPECT_EQ(orlop_read_plan_ranks(views), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    orlop_bytes bytes{};
    EXPECT_EQ(orlop_view(views, 2, rank, &bytes), ORLOP_OK);
    EXPECT_EQ(static_cast<const unsigned char*>(bytes.data)[kValueLen - 1], 100 + rank);
    EXPECT_EQ(orlop_view_unverified(views, 2, rank).data, bytes.data);
    EXPECT_NE(orlop_expected_checksum(views, 2, rank), 0U);
  }
  // Page-major: page 0 of both ranks, page 1 of both ...
  const std::uint64_t* words = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(orlop_read_blob(views, &words, &count), ORLOP_OK);
  ASSERT_EQ(count, 2 + 2 * (kBatch - 1));
  EXPECT_EQ(words[1], 2 * (kBatch - 1));
  EXPECT_EQ(words[2 + 2 * 1 + 1],
            reinterpret_cast<std::uint64_t>(orlop_view_unverified(views, 1, 1).data));
  orlop_read_plan_free(views);
  orlop_namespace_free(ranks[0]);
  orlop_namespace_free(ranks[1]);
  EXPECT_EQ(stats().open_read_plans, 0U);
  EXPECT_EQ(stats().pinned_bytes, 0U);
}

TEST_F(CCalls, Registered_copies_hold_their_plan) {
  const Batch batch(2, 0);
  orlop_put_plan* plan = nullptr;
  ASSERT_EQ(orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan), ORLOP_OK);
  std::uint64_t copy = 0;
  ASSERT_EQ(orlop_put_register_copy(plan, &copy), ORLOP_OK);
  EXPECT_EQ(orlop_put_commit(client_, plan, nullptr), ORLOP_WRONG_STATE);
  EXPECT_EQ(orlop_put_plan_prepared(plan), kBatch);  // left usable
  EXPECT_EQ(orlop_put_copy_done(plan, copy, 1), ORLOP_OK);
  ASSERT_EQ(orlop_put_register_copy(plan, &copy), ORLOP_OK);
  EXPECT_EQ(stats().open_put_plans, 1U);
  orlop_put_plan_free(plan);  // under the copy: the memory stays until it is reported
  EXPECT_EQ(stats().open_put_plans, 1U);
  EXPECT_EQ(orlop_copy_done(client_, copy, 1), ORLOP_OK);
  EXPECT_EQ(stats().open_put_plans, 0U);
}

TEST_F(CCalls, Pages_are_written_through_the_blob) {
  const Batch batch(3, 7);
  orlop_put_plan* plan = nullptr;
  ASSERT_EQ(orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan), ORLOP_OK);
  const std::uint64_t* words = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(orlop_put_blob(plan, &words, &count), ORLOP_OK);
  ASSERT_EQ(count, 2 + kBatch);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(words), 8), "ORLOPPL1");
  EXPECT_EQ(words[1], kBatch);
  for (std::size_t i = 0; i < kBatch; ++i) {
    const orlop_buffer memory = orlop_put_memory(plan, i);
    EXPECT_EQ(words[2 + i], reinterpret_cast<std::uint64_t>(memory.data));
    std::fill_n(static_cast<unsigned char*>(memory.data), memory.size, batch.fill);
  }
  orlop_future* future = nullptr;
  std::array<orlop_outcome, kBatch> outcomes{};
  ASSERT_EQ(orlop_put_commit(client_, plan, &future), ORLOP_OK);
  ASSERT_EQ(orlop_future_wait(future, kPatienceMs, outcomes.data(), kBatch), ORLOP_OK);
  EXPECT_EQ(orlop_future_ready(future), 1);
  EXPECT_EQ(outcomes[3], ORLOP_OUTCOME_STORED);
  orlop_future_free(future);
  orlop_put_plan_free(plan);
  EXPECT_TRUE(read(3, 7, true));  // with the checksum that the commit computed
}

TEST_F(CCalls, Removal_and_flush_say_how_much) {
  const Batch batch(4, 0);
  std::uint64_t slots = 0;
  std::uint32_t present = 0;
  ASSERT_TRUE(put(4, 0));
  EXPECT_EQ(orlop_remove(client_, ns_, &batch.keys, &slots), ORLOP_OK);
  EXPECT_EQ(slots, kBatch);
  EXPECT_EQ(orlop_exists(client_, ns_, &batch.keys, &present, nullptr, 0), ORLOP_OK);
  EXPECT_EQ(present, 0U);
  ASSERT_TRUE(put(4, 0));
  std::uint64_t namespaces = 0;
  EXPECT_EQ(orlop_flush(client_, ns_, &namespaces), ORLOP_OK);
  EXPECT_EQ(namespaces, 1U);  // of kBatch values
  ASSERT_TRUE(put(4, 0));     // not "exists"
  EXPECT_EQ(orlop_flush_family(client_, ns_, &namespaces), ORLOP_OK);
  EXPECT_EQ(namespaces, 1U);
  EXPECT_EQ(orlop_flush(client_, ns_, nullptr), ORLOP_OK);
  EXPECT_EQ(orlop_exists(client_, ns_, &batch.keys, &present, nullptr, 0), ORLOP_OK);
  EXPECT_EQ(present, 0U);
}

TEST_F(CCalls, Client_tells_who_and_where_it_is) {
  EXPECT_EQ(orlop_ready(client_), 1);
  EXPECT_EQ(orlop_last_attach_error(client_), ORLOP_OK);
  EXPECT_NE(orlop_segment_id(client_), 0U);
  EXPECT_NE(orlop_incarnation(client_), 0U);
  EXPECT_EQ(orlop_namespace_value_len(ns_), kValueLen);
  EXPECT_EQ(orlop_namespace_resolved(ns_), 1);
  EXPECT_EQ(orlop_ping(client_), ORLOP_OK);
}

TEST_F(CCalls, Result_is_told_after_the_handles_end) {
  const Batch batch(5, 0);
  ASSERT_TRUE(put(5, 0));
  const std::uint32_t groups[] = {3, 1};
  orlop_get_options options{};
  options.struct_size = sizeof options;
  options.atomic_group_lens = groups;
  options.atomic_group_count = 2;
  orlop_get_handle* handle = nullptr;
  ASSERT_EQ(orlop_get_start(client_, ns_, &batch.keys, &options, &handle, nullptr), ORLOP_OK);
  EXPECT_EQ(orlop_cancel_get(client_, handle), ORLOP_OK);
  orlop_get_result found{};
  found.struct_size = sizeof found;
  EXPECT_EQ(orlop_handle_result(handle, &found), ORLOP_OK);
  EXPECT_EQ(found.prefix_hit_groups, 2U);
  EXPECT_EQ(found.all_hit, 1U);
  EXPECT_EQ(found.reason, ORLOP_MISS_NONE);
  orlop_get_handle_free(handle);
}

}  // namespace
}  // namespace orlop::c_api
