// SPDX-License-Identifier: Apache-2.0
// For rows about page caches: one in memory of the test, to be spoiled.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c_client.h"
#include "rows.h"

namespace orlop::negative_test {

inline constexpr std::size_t kEnginePages = 8;

// A cache of two layers, K and V, 4 tokens of 2 heads of 128 bytes, whose pages are values of the
// worker's namespace; to be spoiled before or after it is opened.
struct Paged {
  explicit Paged(World& world)
      : client(world.worker().client.c()),
        ns(Client::c(world.worker().ns)),
        memory(kEnginePages * kValueLen) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = {.name = orlop_text_of("part"),
                  .layer = static_cast<std::uint32_t>(i / 2),
                  .pool = 0,
                  .base = reinterpret_cast<std::uint64_t>(memory.data()) + i * 1024,
                  .pages = kEnginePages,
                  .page_stride = kValueLen,
                  .heads = 2,
                  .tokens = 4,
                  .head_stride = 128,
                  .token_stride = 256,
                  .row_bytes = 128};
    }
    layout.parts = parts.data();
    layout.part_count = parts.size();
  }
  Paged(const Paged&) = delete;
  ~Paged() {
    orlop_backup_free(backup);
    orlop_restore_free(restore);
    orlop_page_cache_free(cache);
    orlop_put_plan_free(plan);
    orlop_read_plan_free(views);
  }
  orlop_status open(const orlop_page_cache_options* options = nullptr) {
    return orlop_page_cache_open(client, &layout, kValueLen, options, &cache);
  }
  // A put of two fresh keys; the numbers and the item name pages 0 and 1.
  void start_put(const std::string& name) {
    const std::array<std::string, 2> texts{name + "-0", name + "-1"};
    const std::array<orlop_bytes, 2> items{
        {{texts[0].data(), texts[0].size()}, {texts[1].data(), texts[1].size()}}};
    const orlop_keys keys{2, items.data(), nullptr, 0};
    EXPECT_EQ(orlop_put_start(client, ns, &keys, nullptr, &plan), ORLOP_OK);
    EXPECT_EQ(orlop_put_plan_prepared(plan), 2U);
    put = {plan, &list, 1};
  }
  // The same keys, stored and pinned.
  void start_get(const std::string& name) {
    start_put(name);
    EXPECT_EQ(orlop_backup_pages(cache, &put, 1, nullptr, &backup), ORLOP_OK)
        << orlop_error_message();
    std::array<orlop_outcome, 2> outcomes{};
    EXPECT_EQ(orlop_backup_wait(backup, kPatience.count(), outcomes.data(), 2), ORLOP_OK);
    const std::array<std::string, 2> texts{name + "-0", name + "-1"};
    const std::array<orlop_bytes, 2> items{
        {{texts[0].data(), texts[0].size()}, {texts[1].data(), texts[1].size()}}};
    const orlop_keys keys{2, items.data(), nullptr, 0};
    orlop_get_handle* handle = nullptr;
    EXPECT_EQ(orlop_get_start(client, ns, &keys, nullptr, &handle, nullptr), ORLOP_OK);
    EXPECT_EQ(orlop_get_transfer(client, handle, ORLOP_WHOLE_PREFIX, &views), ORLOP_OK);
    EXPECT_EQ(orlop_read_plan_size(views), 2U);
    orlop_get_handle_free(handle);
    get = {views, &list, 1, 0};
  }
  orlop_status back_up(std::size_t items = 1) {
    return orlop_backup_pages(cache, &put, items, nullptr, &backup);
  }
  orlop_status bring_back(const orlop_restore_options* options = nullptr) {
    return orlop_restore_pages(cache, &get, 1, options, &restore);
  }
  orlop_status bring_back(std::vector<orlop_layer_range> ranges) {
    auto options = sized<orlop_restore_options>();
    options.ranges = ranges.data();
    options.range_count = ranges.size();
    return bring_back(&options);
  }

  orlop_client* client;
  const orlop_namespace* ns;
  std::vector<std::byte> memory;
  std::array<orlop_kv_part, 4> parts{};
  orlop_kv_layout layout = sized<orlop_kv_layout>();
  std::array<std::int64_t, 2> numbers{0, 1};
  orlop_page_list list{numbers.data(), numbers.size()};
  orlop_page_cache* cache = nullptr;
  orlop_put_plan* plan = nullptr;
  orlop_read_plan* views = nullptr;
  orlop_backup_item put{};
  orlop_restore_item get{};
  orlop_backup* backup = nullptr;
  orlop_restore* restore = nullptr;
};

using PagedCall = std::function<orlop_status(Paged&)>;

inline Row paged_row(std::string name, std::optional<ErrorCode> code, std::vector<std::string> says,
                     PagedCall call) {
  return {Item::kCallFromC, std::move(name), code, std::move(says),
          [call = std::move(call)](World& world) {
            Paged paged(world);
            return c_answer(call(paged));
          }};
}

}  // namespace orlop::negative_test
