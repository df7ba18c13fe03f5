// SPDX-License-Identifier: Apache-2.0
// Test support: a node inside the test process and one client of it, through orlop.h alone.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "client/test_node.h"
#include "orlop/orlop.h"

namespace orlop::c_api::testing {

inline constexpr std::size_t kBatch = 4;
inline constexpr std::size_t kValueLen = 4096;
inline constexpr std::int64_t kPatienceMs = 20'000;
inline constexpr const char* kDescriptor =
    R"({"engine":"test","layout":"test-1/flat","model":"threads","revision":"r1","dtype":"u8",)"
    R"("page_tokens":16,"value_len":4096})";

// Packed keys "T-RRRR-B" of one batch, and the byte that fills its pages.
struct Batch {
  Batch(int thread, int round) : fill(static_cast<unsigned char>(thread * 31 + round)) {
    const std::string number = std::to_string(10'000 + round).substr(1);
    for (std::size_t i = 0; i < kBatch; ++i)
      packed += std::to_string(thread) + "-" + number + "-" + std::to_string(i);
    keys = {kBatch, nullptr, packed.data(), packed.size() / kBatch};
  }
  Batch(const Batch&) = delete;
  std::string packed;
  orlop_keys keys{};
  unsigned char fill;
};

class OnNode : public ::testing::Test {
 protected:
  OnNode() {
    orlop_client_options options{};
    options.struct_size = sizeof options;
    options.socket = orlop_text_of(node_.socket().c_str());
    options.call_budget_ms = kPatienceMs;
    EXPECT_EQ(orlop_open(&options, &client_), ORLOP_OK);
    EXPECT_EQ(orlop_wait_ready(client_, kPatienceMs), ORLOP_OK);
    EXPECT_EQ(orlop_open_namespace_json(client_, orlop_text_of(kDescriptor), &ns_), ORLOP_OK);
  }
  ~OnNode() override {
    orlop_namespace_free(ns_);
    orlop_client_free(client_);
  }

  bool put(int thread, int round) {
    const Batch batch(thread, round);
    orlop_put_plan* plan = nullptr;
    orlop_future* future = nullptr;
    std::array<orlop_outcome, kBatch> outcomes{};
    bool good = orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan) == ORLOP_OK;
    const std::vector<unsigned char> page(kValueLen, batch.fill);
    for (std::size_t i = 0; i < orlop_put_plan_size(plan); ++i)
      good = good && orlop_copy_in(plan, i, page.data(), page.size()) == ORLOP_OK;
    good = good && orlop_put_commit(client_, plan, &future) == ORLOP_OK;
    good = good &&
           orlop_future_wait(future, kPatienceMs, outcomes.data(), outcomes.size()) == ORLOP_OK;
    for (const orlop_outcome outcome : outcomes) good = good && outcome == ORLOP_OUTCOME_STORED;
    orlop_future_free(future);
    orlop_put_plan_free(plan);
    return good;
  }
  // All of the batch's pages, right to the last byte; or none when it need not be there.
  bool read(int thread, int round, bool must_be_there) {
    const Batch batch(thread, round);
    orlop_get_handle* handle = nullptr;
    orlop_read_plan* views = nullptr;
    bool good = orlop_get_start(client_, ns_, &batch.keys, nullptr, &handle, nullptr) == ORLOP_OK;
    good = good && orlop_get_transfer(client_, handle, ORLOP_WHOLE_PREFIX, &views) == ORLOP_OK;
    good = good && (!must_be_there || orlop_read_plan_size(views) == kBatch);
    for (std::size_t i = 0; i < orlop_read_plan_size(views); ++i) {
      std::vector<unsigned char> page(kValueLen);
      good = good && orlop_copy_out(views, i, 0, page.data(), page.size()) == ORLOP_OK;
      good = good && page == std::vector<unsigned char>(kValueLen, batch.fill);
    }
    orlop_read_plan_free(views);
    orlop_get_handle_free(handle);
    return good;
  }

  client::testing::TestNode node_;
  orlop_client* client_ = nullptr;
  orlop_namespace* ns_ = nullptr;
};

}  // namespace orlop::c_api::testing
