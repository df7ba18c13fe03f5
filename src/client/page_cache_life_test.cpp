// SPDX-License-Identifier: Apache-2.0
// What happens around a job: cancel, close, plans that go, servers and memory that go, forks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <optional>
#include <random>
#include <thread>

#include "client/access.h"
#include "client/page_cache_fixture.h"
#include "client/thread_state.h"

namespace orlop::client::testing {
namespace {

// A cache of the reader's (or writer's) whose every first touch waits for the test.
class PageCacheLifeTest : public PageCacheTest {
 protected:
  PageCacheLifeTest() : engine(shape, Physical::kTokenHead, kPages) {}
  PageCache open_stalled(Client& by, StalledMemory& memory) const {
    PageCache cache = open_cache(by, engine.layout_at(memory.address()));
    memory.stall();
    return cache;
  }
  // A backup that stands at its first touch of the cache's memory. Plan and page numbers are gone.
  static Backup begin_stalled(PageCache& cache, PutPlan plan, const StalledMemory& memory) {
    const auto pages = numbers(kPages);
    const BackupItem item{&plan, {pages}};
    auto backup = cache.backup({&item, 1});
    EXPECT_TRUE(backup.has_value());
    EXPECT_TRUE(memory.wait_touched());
    return *backup;
  }
  std::size_t prepared_slots() const {
    std::size_t count = 0;
    const segment::ControlArea& area = node.area();
    for (std::uint32_t id = 1; area.valid_slot(SlotId{id}) && id < 20'000; ++id)
      count += area.slot(SlotId{id}).load_word().state == segment::SlotState::kPrepared ? 1 : 0;
    return count;
  }
  EngineCache engine;
};

TEST_F(PageCacheLifeTest, Backup_thatNobodyWaitsFor_isCommittedByItself) {
  PageCache cache = open_cache(client, engine.layout());
  const Keys keys(kPages);
  for (std::int64_t page = 0; page < std::int64_t{kPages}; ++page)
    engine.fill(page, static_cast<std::uint64_t>(page));
  PutPlan plan = start(client, pages_ns, keys);
  const auto pages = numbers(kPages);
  const BackupItem item{&plan, {pages}};
  ASSERT_TRUE(cache.backup({&item, 1}).has_value());  // the job object goes at once
  EXPECT_TRUE(eventually([&] { return reader.exists(reader_ns, keys)->prefix_len == kPages; }));
  EXPECT_TRUE(eventually([&] { return cache.stats().running == 0; }));
  expect_nothing_open(client);
}

TEST_F(PageCacheLifeTest, Backup_underWay_isNotReadableAndItsPlanStays) {
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(client, memory);
  const Keys keys(kPages);
  Backup backup = begin_stalled(cache, start(client, pages_ns, keys), memory);
  EXPECT_FALSE(backup.done());
  EXPECT_FALSE(backup.wait(Milliseconds{1})->has_value());
  EXPECT_EQ(client.stats().open_put_plans, 1U);
  EXPECT_EQ(reader.exists(reader_ns, keys)->prefix_len, 0U);
  EXPECT_EQ(cache.stats().running, 1U);
  memory.release();
  EXPECT_EQ((**backup.wait(kLong))[0], std::vector<Outcome>(kPages, Outcome::kStored));
  EXPECT_TRUE(backup.done());
  expect_nothing_open(client);
}

TEST_F(PageCacheLifeTest, Cancel_ofABackup_abortsAfterTheCopyIsOver) {
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(client, memory);
  Backup backup = begin_stalled(cache, start(client, pages_ns, Keys(kPages)), memory);
  backup.cancel();
  backup.cancel();
  EXPECT_EQ(client.stats().open_put_plans, 1U);  // a value is being written
  EXPECT_EQ(prepared_slots(), kPages);
  memory.release();
  const auto answer = backup.wait(kLong);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kClosed);
  // The same answer before and after somebody has seen the end.
  EXPECT_EQ(backup.stream_wait(nullptr).error().code, ErrorCode::kWrongState);
  EXPECT_TRUE(eventually([&] { return prepared_slots() == 0; }));
  EXPECT_EQ(reader.exists(reader_ns, Keys(kPages))->prefix_len, 0U);
  EXPECT_EQ(cache.stats().cancelled, 1U);
  expect_nothing_open(client);
  EXPECT_EQ(start(client, pages_ns, Keys(kPages)).prepared(), kPages);  // may be put again
}

TEST_F(PageCacheLifeTest, Plan_releasedUnderARestore_keepsItsPinsUntilTheEnd) {
  PageCache writer = open_cache(client, engine.layout());
  store(writer, engine, Keys(kPages));
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(reader, memory);
  const auto pages = numbers(kPages);
  std::optional<Restore> released, dropped;
  {
    ReadPlan first = pin(reader, reader_ns, Keys(kPages));
    ReadPlan second = pin(reader, reader_ns, Keys(kPages));
    const RestoreItem one{.plan = &first, .pages = {pages}};
    const RestoreItem two{.plan = &second, .pages = {pages}};
    released = *cache.restore({&one, 1});
    dropped = *cache.restore({&two, 1});
    ASSERT_TRUE(memory.wait_touched());
    EXPECT_TRUE(reader.release_views(first).has_value());
  }
  EXPECT_EQ(reader.stats().pinned_bytes, 2 * kPages * shape.value_len());
  memory.release();
  EXPECT_EQ(**released->wait(kLong), std::vector<std::uint32_t>{kPages});
  EXPECT_EQ(**dropped->wait(kLong), std::vector<std::uint32_t>{kPages});
  expect_nothing_open(reader);
}

// The end of a job, which may sum gigabytes, is stopped here at the lock that it needs for the
// plan.
TEST_F(PageCacheLifeTest, Looks_atAJobThatIsBeingEnded_doNotWait) {
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, Keys(kPages));
  StalledMemory memory(engine.memory_bytes());
  PageCache stalled = open_stalled(client, memory);
  ReadPlan plan = pin(client, pages_ns, Keys(kPages));
  const auto pages = numbers(kPages);
  const RestoreItem item{.plan = &plan, .pages = {pages}};
  auto restore = stalled.restore({&item, 1});
  ASSERT_TRUE(memory.wait_touched());
  std::unique_lock held(detail::ClientAccess::state(plan)->home->mutex);
  memory.release();
  auto looks = std::async(std::launch::async, [&] {
    while (!restore->range_done(0)) std::this_thread::yield();
    bool done = false;
    for (std::size_t look = 0; look < 1'000; ++look) {
      done = done || restore->done() || !restore->range_done(0);
      std::this_thread::yield();
    }
    restore->cancel();  // too late
    return !done;
  });
  EXPECT_EQ(looks.wait_for(kLong), std::future_status::ready);
  held.unlock();
  EXPECT_TRUE(looks.get());
  EXPECT_EQ(**restore->wait(kLong), std::vector<std::uint32_t>{kPages});
  EXPECT_TRUE(restore->done());
  EXPECT_TRUE(client.release_views(plan).has_value());
}

TEST_F(PageCacheLifeTest, Close_underJobs_cancelsThemAndDetaches) {
  PageCache writer = open_cache(reader, engine.layout());
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(client, memory);
  Backup backup = begin_stalled(cache, start(client, pages_ns, Keys(kPages)), memory);
  std::thread closer([&] { client.close(); });
  // Only this answer says that close() has got so far: the plan is used up either way.
  EXPECT_TRUE(eventually([&] {
    const Result<Backup> another = cache.backup({});
    return !another && another.error().code == ErrorCode::kClosed;
  }));
  memory.release();
  closer.join();
  EXPECT_TRUE(backup.done());
  const auto ended = backup.wait(Milliseconds{0});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kClosed);
  EXPECT_EQ(cache.backup({}).error().code, ErrorCode::kClosed);
  EXPECT_EQ(cache.stats().registered_bytes, 0U);
  // Its channel is given back, which a client with copies under way may not do.
  EXPECT_TRUE(eventually([&] { return node.channels_held() == 1; }));
  EXPECT_TRUE(eventually([&] { return prepared_slots() == 0; }));
}

// close() gives up waiting after the call budget; the memory stays nobody else's.
TEST_F(PageCacheLifeTest, Close_underAJobThatHangs_leavesItsMemoryAlone) {
  Client hasty({.socket = node.socket(), .name = "hasty", .call_budget = Milliseconds{200}});
  ASSERT_TRUE(hasty.wait_ready(kLong));
  const Namespace in = open_pages(hasty);
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(hasty, memory);
  // The time of its close() is not that of this call.
  auto plan = hasty.put_start(in, Keys(kPages, "hang"), {.deadline = kLong});
  ASSERT_EQ(plan->prepared(), kPages);
  Backup backup = begin_stalled(cache, std::move(*plan), memory);
  hasty.close();
  EXPECT_FALSE(backup.done());
  EXPECT_EQ(prepared_slots(), kPages);
  EXPECT_EQ(node.channels_held(), 3U);
  memory.release();
  EXPECT_EQ(backup.wait(kLong).error().code, ErrorCode::kClosed);
  EXPECT_EQ(prepared_slots(), kPages);  // until the proof of death: the client said no goodbye
}

TEST_F(PageCacheLifeTest, Client_thatGoesBeforeItsCache_leavesAClosedOne) {
  std::optional<Client> early(with_socket({}));
  ASSERT_TRUE(early->wait_ready(kLong));
  PageCache cache = open_cache(*early, engine.layout());
  EXPECT_GT(cache.stats().registered_bytes, 0U);
  early.reset();
  EXPECT_EQ(cache.backup({}).error().code, ErrorCode::kClosed);
  EXPECT_EQ(cache.restore({}).error().code, ErrorCode::kClosed);
  EXPECT_EQ(cache.stats().registered_bytes, 0U);
}

TEST_F(PageCacheLifeTest, Cache_thatIsDestroyed_waitsForItsJobs) {
  StalledMemory memory(engine.memory_bytes());
  std::optional<PageCache> cache = open_stalled(client, memory);
  Backup backup = begin_stalled(*cache, start(client, pages_ns, Keys(kPages)), memory);
  std::atomic<bool> gone{false};
  std::thread owner([&] {
    cache.reset();
    gone = true;
  });
  EXPECT_FALSE(backup.wait(Milliseconds{20})->has_value());
  EXPECT_FALSE(gone);
  memory.release();
  owner.join();
  EXPECT_EQ((**backup.wait(kLong))[0], std::vector<Outcome>(kPages, Outcome::kStored));
  EXPECT_TRUE(backup.stream_wait(nullptr).has_value());
}

TEST_F(PageCacheLifeTest, Server_restartedUnderABackup_answersItAfterwards) {
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(client, memory);
  const Keys keys(kPages);
  Backup backup = begin_stalled(cache, start(client, pages_ns, keys), memory);
  node.stop_server();
  memory.release();
  EXPECT_FALSE(backup.wait(Milliseconds{50})->has_value());  // copied, and nobody to answer
  node.start_server();
  EXPECT_EQ((**backup.wait(kLong))[0], std::vector<Outcome>(kPages, Outcome::kStored));
  EXPECT_TRUE(eventually([&] { return reader.exists(reader_ns, keys)->prefix_len == kPages; }));
  expect_nothing_open(client);
}

TEST_F(PageCacheLifeTest, Memory_replacedUnderJobs_isLetGoAndTheNewOneUsed) {
  PageCache writer = open_cache(client, engine.layout());
  const Keys keys(4);
  store(writer, engine, keys);
  StalledMemory memory(engine.memory_bytes());
  PageCache cache = open_stalled(client, memory);
  ReadPlan reading = pin(client, pages_ns, keys);
  PutPlan writing = start(client, pages_ns, Keys(4, "lost"));
  const auto low = numbers(4), high = numbers(4, 4);
  const RestoreItem in{.plan = &reading, .pages = {low}};
  const BackupItem out{&writing, {high}};
  auto restore = cache.restore({&in, 1});
  auto backup = cache.backup({&out, 1});
  ASSERT_TRUE(restore.has_value() && backup.has_value());
  ASSERT_TRUE(memory.wait_touched());

  const std::uint64_t before = client.segment_id();
  node.replace_keeper();
  ASSERT_TRUE(eventually([&] { return client.ready() && client.segment_id() != before; }));
  EXPECT_TRUE(eventually([&] { return writer.stats().registered_bytes == 0; }));
  memory.release();
  EXPECT_EQ(**restore->wait(kLong),
            std::vector<std::uint32_t>{4});  // the old memory still holds it
  EXPECT_EQ((**backup->wait(kLong))[0], std::vector<Outcome>(4, Outcome::kNoNode));
  EXPECT_TRUE(client.release_views(reading).has_value());

  store(writer, engine, keys);  // the same object goes on in the new memory
  EXPECT_GT(writer.stats().registered_bytes, 0U);
  ReadPlan again = pin(client, pages_ns, keys);
  const RestoreItem from_new{.plan = &again, .pages = {low}};
  EXPECT_EQ(**writer.restore({&from_new, 1})->wait(kLong), std::vector<std::uint32_t>{4});
  EXPECT_TRUE(client.release_views(again).has_value());
  expect_nothing_open(client);
}

// Else the old mapping, and with CUDA its pinned pages, would stay beside the new for ever.
TEST_F(PageCacheLifeTest, Restore_ofAPlanOfMemoryThatIsGone_keepsNoHoldOfIt) {
  PageCache cache = open_cache(client, engine.layout());
  const Keys keys(4);
  store(cache, engine, keys);
  ReadPlan plan = pin(client, pages_ns, keys);
  const std::uint64_t before = client.segment_id();
  node.replace_keeper();
  ASSERT_TRUE(eventually([&] { return client.ready() && client.segment_id() != before; }));
  ASSERT_TRUE(eventually([&] { return cache.stats().registered_bytes == 0; }));
  const auto pages = numbers(4);
  const RestoreItem item{.plan = &plan, .pages = {pages}};
  engine.clear();
  EXPECT_EQ(**cache.restore({&item, 1})->wait(kLong), std::vector<std::uint32_t>{4});
  EXPECT_TRUE(engine.holds(3, 3));
  EXPECT_EQ(cache.stats().registered_bytes, 0U);
}

// Whenever the cancel comes, a key is stored with all its bytes or not at all.
TEST_F(PageCacheLifeTest, Cancel_atAnyTime_leavesNothingBehind) {
  PageCache cache = open_cache(client, engine.layout());
  for (std::int64_t page = 0; page < std::int64_t{kPages}; ++page)
    engine.fill(page, static_cast<std::uint64_t>(page));
  const auto pages = numbers(kPages);
  std::mt19937 random(20261130);
  std::size_t cancelled = 0;
  for (std::size_t round = 0; round < 60; ++round) {
    const Keys keys(kPages, "r" + std::to_string(round) + "-");
    PutPlan plan = start(client, pages_ns, keys);
    ASSERT_EQ(plan.prepared(), kPages) << round;
    const BackupItem item{&plan, {pages}};
    auto backup = cache.backup({&item, 1});
    ASSERT_TRUE(backup.has_value()) << backup.error().message;
    for (std::uint32_t spins = random() % 200'000; spins > 0; --spins)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    backup->cancel();
    const auto answer = backup->wait(kLong);
    const std::uint32_t readable = client.exists(pages_ns, keys)->prefix_len;
    if (!answer) {
      EXPECT_EQ(answer.error().code, ErrorCode::kClosed);
      EXPECT_EQ(readable, 0U);
      ++cancelled;
      continue;
    }
    EXPECT_EQ(readable, kPages);
    ReadPlan reading = pin(client, pages_ns, keys);
    const RestoreItem in{.plan = &reading, .pages = {pages}};
    auto restore = cache.restore({&in, 1});
    restore->cancel();
    const auto valid = restore->wait(kLong);
    EXPECT_TRUE(valid ? **valid == std::vector<std::uint32_t>{kPages}
                      : valid.error().code == ErrorCode::kClosed);
    EXPECT_TRUE(client.release_views(reading).has_value());
    EXPECT_TRUE(client.remove(pages_ns, keys).has_value());
  }
  EXPECT_GE(cache.stats().cancelled, cancelled);
  EXPECT_EQ(cache.stats().failed, 0U);
  EXPECT_TRUE(eventually([&] { return prepared_slots() == 0; }));
  expect_nothing_open(client);
}

TEST_F(PageCacheLifeTest, BothDirections_ofManyThreads_neverMixPages) {
  constexpr std::size_t kRounds = 25, kBatch = 6;
  EngineCache other(shape, Physical::kHeadToken, 2 * kPages);
  PageCache writing = open_cache(client, engine.layout());
  PageCache reading = open_cache(reader, other.layout());
  for (std::int64_t page = 0; page < std::int64_t{kPages}; ++page)
    engine.fill(page, static_cast<std::uint64_t>(page));
  std::atomic<std::size_t> restored{0};
  const auto work = [&](std::size_t thread) {
    // Every thread has pages of its own on both sides.
    const auto from = numbers(kBatch, static_cast<std::int64_t>(thread * kBatch));
    const auto to = numbers(kBatch, static_cast<std::int64_t>(thread * kBatch), 1);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const Keys keys(kBatch, "t" + std::to_string(thread) + "-" + std::to_string(round) + "-");
      PutPlan plan = start(client, pages_ns, keys);
      if (plan.prepared() != kBatch) continue;
      const BackupItem item{&plan, {from}};
      auto backup = writing.backup({&item, 1});
      ASSERT_TRUE(backup.has_value()) << backup.error().message;
      ASSERT_TRUE(backup->wait(kLong)->has_value());
      ReadPlan views = pin(reader, reader_ns, keys);
      const RestoreItem in{.plan = &views, .pages = {std::span(to).first(views.size())}};
      auto restore = reading.restore({&in, 1});
      ASSERT_TRUE(restore.has_value()) << restore.error().message;
      const auto valid = restore->wait(kLong);
      ASSERT_TRUE(valid.has_value());
      ASSERT_EQ((**valid)[0], views.size());
      for (std::size_t i = 0; i < views.size(); ++i)
        EXPECT_TRUE(other.holds(to[i], static_cast<std::uint64_t>(from[i])));
      restored += views.size();
      EXPECT_TRUE(reader.release_views(views).has_value());
      EXPECT_TRUE(client.remove(pages_ns, keys).has_value());
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kPages / kBatch; ++thread)
    threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(restored, kRounds * kBatch);
  EXPECT_TRUE(other.padding_intact());
  EXPECT_EQ(writing.stats().running + reading.stats().running, 0U);
  EXPECT_EQ(reading.stats().mismatches, 0U);
  expect_nothing_open(client);
  expect_nothing_open(reader);
}

TEST_F(PageCacheLifeTest, ForkedChild_touchesNothing) {
  StalledMemory memory(engine.memory_bytes());
  auto cache = std::make_unique<PageCache>(open_stalled(client, memory));
  PutPlan plan = start(client, pages_ns, Keys(kPages));
  const auto pages = numbers(kPages);
  const BackupItem item{&plan, {pages}};
  auto backup = std::make_unique<Backup>(*cache->backup({&item, 1}));
  ASSERT_TRUE(memory.wait_touched());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto forked = [](const auto& result) {
      return !result.has_value() && result.error().code == ErrorCode::kForkedChild;
    };
    if (!forked(cache->backup({&item, 1})) || !forked(cache->restore({}))) ::_exit(1);
    if (!forked(backup->wait(Milliseconds{0})) || backup->done()) ::_exit(2);
    if (!forked(backup->stream_wait(nullptr))) ::_exit(3);
    backup->cancel();
    if (cache->stats().backups != 0) ::_exit(4);
    backup.reset();
    cache.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  memory.release();
  EXPECT_EQ((**backup->wait(kLong))[0], std::vector<Outcome>(kPages, Outcome::kStored));
}

}  // namespace
}  // namespace orlop::client::testing
