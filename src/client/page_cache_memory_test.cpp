// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at any point of a call: nothing has begun, nothing stays registered.
#include <gtest/gtest.h>

#include <new>

#include "client/page_cache_fixture.h"
#include "gpu/failing_allocations.h"

namespace orlop::client::testing {
namespace {

using gpu::testing::FailingAllocation;

class PageCacheMemoryTest : public PageCacheTest {
 protected:
  PageCacheMemoryTest() : engine(shape, Physical::kTokenHead, kPages) {}
  void SetUp() override {
    if (!FailingAllocation::kWorks) GTEST_SKIP() << "allocations cannot be made to fail";
    PageCacheTest::SetUp();
  }
  // Calls until no allocation of the call fails; what it gave then.
  template <class Call>
  auto until_it_succeeds(PageCache& cache, Call call) {
    for (std::uint64_t good = 0;; ++good) {
      try {
        const FailingAllocation fails(good);
        auto job = call();
        EXPECT_TRUE(job.has_value()) << job.error().message;
        EXPECT_GT(good, 5U) << "a call that allocates almost nothing tests nothing";
        return job;
      } catch (const std::bad_alloc&) {
        EXPECT_EQ(cache.stats().running, 0U) << good;
      }
    }
  }
  EngineCache engine;
};

TEST_F(PageCacheMemoryTest, Backup_withoutMemory_leavesThePlanAsItWas) {
  PageCache cache = open_cache(client, engine.layout());
  const Keys keys(kPages);
  PutPlan plan = start(client, pages_ns, keys);
  const auto pages = numbers(kPages);
  const BackupItem item{&plan, {pages}};
  auto backup = until_it_succeeds(cache, [&] { return cache.backup({&item, 1}); });
  EXPECT_EQ((**backup->wait(kLong))[0], std::vector<Outcome>(kPages, Outcome::kStored));
  expect_nothing_open(client);
  EXPECT_EQ(cache.stats().backups, 1U);
}

TEST_F(PageCacheMemoryTest, Restore_withoutMemory_leavesThePlanAsItWas) {
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, Keys(kPages));
  ReadPlan plan = pin(client, pages_ns, Keys(kPages));
  const auto pages = numbers(kPages);
  const RestoreItem item{.plan = &plan, .pages = {pages}};
  const RestoreOptions options{.ranges = {{0, 1}, {1, 2}}};
  auto restore = until_it_succeeds(cache, [&] { return cache.restore({&item, 1}, options); });
  EXPECT_EQ(**restore->wait(kLong), std::vector<std::uint32_t>{kPages});
  EXPECT_TRUE(client.release_views(plan).has_value());
  expect_nothing_open(client);
  EXPECT_EQ(cache.stats().restores, 1U);
}

// Nothing to copy: the job ends within the call.
TEST_F(PageCacheMemoryTest, Backup_ofNothing_withoutMemory_endsOrNeverBegan) {
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, Keys(kPages));
  PutPlan plan = start(client, pages_ns, Keys(kPages));  // all are there already
  ASSERT_EQ(plan.prepared(), 0U);
  const auto pages = numbers(kPages);
  const BackupItem item{&plan, {pages}};
  for (std::uint64_t good = 0; good < 200; ++good) {
    PutPlan again = start(client, pages_ns, Keys(kPages));
    const BackupItem of_again{&again, {pages}};
    try {
      const FailingAllocation fails(good);
      static_cast<void>(cache.backup({&of_again, 1}));
    } catch (const std::bad_alloc&) {
    }
    EXPECT_EQ(cache.stats().running, 0U) << good;
  }
}

}  // namespace
}  // namespace orlop::client::testing
