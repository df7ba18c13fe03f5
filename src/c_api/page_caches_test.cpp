// SPDX-License-Identifier: Apache-2.0
// Pages of a small cache in CPU memory, backed up and restored through orlop.h; what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "c_api/guard.h"
#include "c_api/node_fixture.h"

namespace orlop::c_api {
namespace {

using testing::Batch;
using testing::kBatch;
using testing::kPatienceMs;
using testing::kValueLen;

constexpr std::size_t kEnginePages = 2 * kBatch;

// Two layers, K and V, 4 tokens of 2 heads of 128 bytes: a value of 4,096 bytes.
class CPageCache : public testing::OnNode {
 protected:
  CPageCache() : memory_(kEnginePages * kValueLen) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i] = {.name = orlop_text_of("part"),
                   .layer = static_cast<std::uint32_t>(i / 2),
                   .pool = 0,
                   .base = reinterpret_cast<std::uint64_t>(memory_.data()) + i * 1024,
                   .pages = kEnginePages,
                   .page_stride = kValueLen,
                   .heads = 2,
                   .tokens = 4,
                   .head_stride = 128,
                   .token_stride = 256,
                   .row_bytes = 128};
    }
    layout_ = {.struct_size = sizeof layout_,
               .pools = nullptr,
               .pool_count = 0,
               .parts = parts_.data(),
               .part_count = parts_.size(),
               .order = ORLOP_ORDER_HEAD_TOKEN_CHANNEL,
               .padding = 0};
    for (std::size_t i = 0; i < kBatch; ++i) {
      low_[i] = static_cast<std::int64_t>(i);
      high_[i] = static_cast<std::int64_t>(kEnginePages - 1 - i);
    }
  }
  orlop_page_cache* open() {
    orlop_page_cache* cache = nullptr;
    EXPECT_EQ(orlop_page_cache_open(client_, &layout_, kValueLen, nullptr, &cache), ORLOP_OK)
        << last_error_text();
    return cache;
  }
  void fill() {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      memory_[i] = static_cast<unsigned char>(i * 7 + i / 4096);
  }
  orlop_backup* back_up(orlop_page_cache* cache, const Batch& batch) {
    orlop_put_plan* plan = nullptr;
    EXPECT_EQ(orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan), ORLOP_OK);
    const orlop_page_list list{low_.data(), low_.size()};
    const orlop_backup_item item{plan, &list, 1};
    orlop_backup* backup = nullptr;
    EXPECT_EQ(orlop_backup_pages(cache, &item, 1, nullptr, &backup), ORLOP_OK) << last_error_text();
    EXPECT_EQ(orlop_put_plan_size(plan), 0U);
    orlop_put_plan_free(plan);
    return backup;
  }
  orlop_read_plan* pin(const Batch& batch) {
    orlop_get_handle* handle = nullptr;
    orlop_read_plan* views = nullptr;
    EXPECT_EQ(orlop_get_start(client_, ns_, &batch.keys, nullptr, &handle, nullptr), ORLOP_OK);
    EXPECT_EQ(orlop_get_transfer(client_, handle, ORLOP_WHOLE_PREFIX, &views), ORLOP_OK);
    orlop_get_handle_free(handle);
    return views;
  }

  std::vector<unsigned char> memory_;
  std::array<orlop_kv_part, 4> parts_{};
  orlop_kv_layout layout_{};
  std::array<std::int64_t, kBatch> low_{}, high_{};
};

TEST_F(CPageCache, Backup_and_restore_bring_the_pages_back) {
  std::uint64_t bytes = 0;
  ASSERT_EQ(orlop_layout_value_len(&layout_, &bytes), ORLOP_OK);
  EXPECT_EQ(bytes, kValueLen);
  orlop_page_cache* cache = open();
  EXPECT_EQ(orlop_page_cache_engine(cache, 1, 0), ORLOP_ENGINE_HOST);
  EXPECT_STREQ(orlop_engine_name(ORLOP_ENGINE_HOST), "host");
  fill();
  const Batch batch(1, 1);
  orlop_backup* backup = back_up(cache, batch);
  EXPECT_EQ(orlop_backup_size(backup), kBatch);
  std::array<orlop_outcome, kBatch> outcomes{};
  ASSERT_EQ(orlop_backup_wait(backup, kPatienceMs, outcomes.data(), kBatch), ORLOP_OK);
  for (const orlop_outcome outcome : outcomes) EXPECT_EQ(outcome, ORLOP_OUTCOME_STORED);
  EXPECT_EQ(orlop_backup_done(backup), 1);
  EXPECT_EQ(orlop_backup_stream_wait(backup, nullptr), ORLOP_OK);
  orlop_backup_free(backup);

  const std::vector<unsigned char> before = memory_;
  orlop_read_plan* views = pin(batch);
  const orlop_page_list list{high_.data(), high_.size()};
  const orlop_restore_item item{views, &list, 1, 0};
  const std::array<orlop_layer_range, 2> ranges{{{0, 1}, {1, 2}}};
  orlop_restore_options options{};
  options.struct_size = sizeof options;
  options.ranges = ranges.data();
  options.range_count = ranges.size();
  orlop_restore* restore = nullptr;
  ASSERT_EQ(orlop_restore_pages(cache, &item, 1, &options, &restore), ORLOP_OK)
      << last_error_text();
  EXPECT_EQ(orlop_restore_ranges(restore), 2U);
  EXPECT_EQ(orlop_restore_stream_wait(restore, 0, nullptr), ORLOP_OK);
  EXPECT_EQ(orlop_restore_range_done(restore, 0), 1);
  std::uint32_t valid = 0;
  ASSERT_EQ(orlop_restore_wait(restore, kPatienceMs, &valid, 1), ORLOP_OK);
  EXPECT_EQ(valid, kBatch);
  EXPECT_EQ(orlop_restore_done(restore), 1);
  for (std::size_t i = 0; i < kBatch; ++i) {
    const auto page = [&](const std::vector<unsigned char>& of, std::int64_t number) {
      return std::span(of).subspan(static_cast<std::size_t>(number) * kValueLen, kValueLen);
    };
    EXPECT_TRUE(std::ranges::equal(page(memory_, high_[i]), page(before, low_[i]))) << i;
  }
  orlop_restore_free(restore);
  orlop_read_plan_free(views);

  orlop_page_cache_stats stats{};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(orlop_page_cache_read_stats(cache, &stats), ORLOP_OK);
  EXPECT_EQ(stats.pages_backed_up, kBatch);
  EXPECT_EQ(stats.bytes_restored, kBatch * kValueLen);
  EXPECT_EQ(stats.running, 0U);
  orlop_page_cache_free(cache);
}

TEST_F(CPageCache, Jobs_and_caches_may_be_freed_in_any_order) {
  orlop_page_cache* cache = open();
  orlop_backup_free(back_up(cache, Batch(1, 1)));
  orlop_backup* backup = back_up(cache, Batch(1, 2));
  EXPECT_EQ(orlop_backup_cancel(backup), ORLOP_OK);
  orlop_page_cache_free(cache);
  std::array<orlop_outcome, kBatch> outcomes{};
  const orlop_status status = orlop_backup_wait(backup, kPatienceMs, outcomes.data(), kBatch);
  EXPECT_TRUE(status == ORLOP_OK || status == ORLOP_CLOSED) << static_cast<int>(status);
  orlop_backup_free(backup);
}

TEST_F(CPageCache, Description_follows_the_text_convention) {
  orlop_page_cache* cache = open();
  std::size_t size = 0;
  ASSERT_EQ(orlop_page_cache_describe(cache, nullptr, 0, &size), ORLOP_OK);
  std::string text(size, 'x');
  ASSERT_EQ(orlop_page_cache_describe(cache, text.data(), text.size(), &size), ORLOP_OK);
  EXPECT_NE(text.find("host"), std::string::npos) << text;
  EXPECT_EQ(orlop_page_cache_describe(cache, text.data(), 1, &size), ORLOP_INVALID_ARGUMENT);
  orlop_page_cache_free(cache);
}

TEST_F(CPageCache, Wrong_arguments_are_named) {
  const auto refused = [](orlop_status status, std::string_view text,
                          orlop_status wanted = ORLOP_INVALID_ARGUMENT) {
    EXPECT_EQ(status, wanted) << text;
    EXPECT_NE(std::string_view(last_error_text()).find(text), std::string_view::npos)
        << last_error_text();
  };
  orlop_page_cache* cache = nullptr;
  refused(orlop_page_cache_open(client_, nullptr, kValueLen, nullptr, &cache), "layout: is NULL");
  refused(orlop_page_cache_open(client_, &layout_, kValueLen, nullptr, nullptr), "out: is NULL");
  refused(orlop_page_cache_open(client_, &layout_, 1, nullptr, &cache), "4,096");
  orlop_kv_layout wrong = layout_;
  wrong.order = 2;
  refused(orlop_layout_value_len(&wrong, nullptr), "order: is 2");
  wrong = layout_;
  wrong.parts = nullptr;
  refused(orlop_layout_value_len(&wrong, nullptr), "parts: is NULL and has 4");
  orlop_page_cache_options options{};
  options.struct_size = sizeof options;
  options.engine = 9;
  refused(orlop_page_cache_open(client_, &layout_, kValueLen, &options, &cache), "engine: is 9");
  options.engine = ORLOP_ENGINE_AUTO;
  options.flags = 8;
  refused(orlop_page_cache_open(client_, &layout_, kValueLen, &options, &cache), "flags: has bits");

  cache = open();
  refused(orlop_backup_pages(cache, nullptr, 1, nullptr, nullptr), "items: is NULL");
  orlop_backup_item item{nullptr, nullptr, 0};
  refused(orlop_backup_pages(cache, &item, 1, nullptr, nullptr), "items[0].plan: is NULL");
  orlop_put_plan* plan = nullptr;
  const Batch batch(2, 1);
  ASSERT_EQ(orlop_put_start(client_, ns_, &batch.keys, nullptr, &plan), ORLOP_OK);
  const orlop_page_list none{nullptr, kBatch};
  item = {plan, &none, 1};
  refused(orlop_backup_pages(cache, &item, 1, nullptr, nullptr),
          "items[0].lists[0].pages: is NULL");
  const orlop_page_list few{low_.data(), kBatch - 1};
  item = {plan, &few, 1};
  refused(orlop_backup_pages(cache, &item, 1, nullptr, nullptr), "items[0]");
  EXPECT_EQ(orlop_put_plan_prepared(plan), kBatch);  // still the caller's
  orlop_put_plan_free(plan);
  refused(orlop_backup_wait(nullptr, 0, nullptr, 0), "backup: is NULL");
  refused(orlop_restore_cancel(nullptr), "restore: is NULL");
  EXPECT_EQ(orlop_backup_done(nullptr) + orlop_restore_done(nullptr), 0);
  EXPECT_EQ(orlop_page_cache_engine(nullptr, 1, 1), ORLOP_ENGINE_AUTO);
  EXPECT_STREQ(orlop_engine_name(7), "unknown");
  orlop_page_cache_free(cache);
  orlop_page_cache_free(nullptr);
}

}  // namespace
}  // namespace orlop::c_api
