// SPDX-License-Identifier: Apache-2.0
// Test support: two clients of one node, a namespace whose values are pages of a small model.
#pragma once

#include <span>
#include <vector>

#include "client/client_fixture.h"
#include "client/engine_cache.h"
#include "client/stalled_memory.h"
#include "orlop/gpu.h"

namespace orlop::client::testing {

class PageCacheTest : public ClientTest {
 protected:
  static constexpr std::size_t kPages = 24;

  static TestNodeOptions roomy() {
    TestNodeOptions options;
    options.capacity = 32 * kMiB;
    options.machine.prepared_cap_bytes = options.capacity;
    return options;
  }
  PageCacheTest() : ClientTest(roomy()), reader(with_socket({})) {
    EXPECT_TRUE(reader.wait_ready(kLong));
    pages_ns = open_pages(client);
    reader_ns = open_pages(reader);
  }
  Namespace open_pages(Client& by) const {
    auto opened = by.open_namespace(descriptor(shape.value_len(), "paged"));
    EXPECT_TRUE(opened.has_value());
    return *opened;
  }
  PageCache open_cache(Client& by, const KvLayout& layout) const {
    auto cache = PageCache::open(by, layout, shape.value_len());
    EXPECT_TRUE(cache.has_value()) << cache.error().message;
    return std::move(*cache);
  }
  static std::vector<std::int64_t> numbers(std::size_t count, std::int64_t first = 0,
                                           std::int64_t step = 1) {
    std::vector<std::int64_t> pages;
    for (std::size_t i = 0; i < count; ++i)
      pages.push_back(first + static_cast<std::int64_t>(i) * step);
    return pages;
  }
  PutPlan start(Client& by, const Namespace& in, const Keys& keys) const {
    auto plan = by.put_start(in, keys);
    EXPECT_TRUE(plan.has_value());
    return std::move(*plan);
  }
  ReadPlan pin(Client& by, const Namespace& in, const Keys& keys) const {
    auto handle = by.get_start(in, keys);
    EXPECT_TRUE(handle.has_value());
    auto plan = by.get_transfer(*handle);
    EXPECT_TRUE(plan.has_value());
    return std::move(*plan);
  }
  // Seeds are the numbers of the pages.
  void store(PageCache& cache, EngineCache& engine, const Keys& keys) {
    const std::vector<std::int64_t> pages = numbers(keys.size());
    for (const std::int64_t page : pages) engine.fill(page, static_cast<std::uint64_t>(page));
    PutPlan plan = start(client, pages_ns, keys);
    ASSERT_EQ(plan.prepared(), keys.size());
    const BackupItem item{&plan, {pages}};
    auto backup = cache.backup({&item, 1});
    ASSERT_TRUE(backup.has_value()) << backup.error().message;
    auto outcomes = backup->wait(kLong);
    ASSERT_TRUE(outcomes.has_value()) << outcomes.error().message;
    ASSERT_TRUE(outcomes->has_value());
    for (const Outcome outcome : (**outcomes)[0]) EXPECT_EQ(outcome, Outcome::kStored);
  }
  static void expect_nothing_open(const Client& by) {
    const ClientStats stats = by.stats();
    EXPECT_EQ(stats.open_put_plans, 0U);
    EXPECT_EQ(stats.open_read_plans, 0U);
    EXPECT_EQ(stats.open_handles, 0U);
    EXPECT_EQ(stats.pinned_bytes, 0U);
  }
  // Where page i of a plan lies in the node's memory.
  std::byte* in_segment(const ReadPlan& plan, std::size_t i) {
    const std::span<const std::byte> page = plan.view_unverified(i);
    const std::span<std::byte> all = node.value_bytes();
    for (std::size_t at = 0; at < all.size(); at += 4096)
      if (std::memcmp(all.data() + at, page.data(), 4096) == 0 &&
          std::equal(page.begin(), page.end(), all.begin() + static_cast<std::ptrdiff_t>(at)))
        return all.data() + at;
    return nullptr;
  }

  CacheShape shape;
  Client reader;
  Namespace pages_ns, reader_ns;
};

}  // namespace orlop::client::testing
