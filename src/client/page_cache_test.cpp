// SPDX-License-Identifier: Apache-2.0
// Backup and restore between clients and layouts; what is refused.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "client/page_cache_fixture.h"

namespace orlop::client::testing {
namespace {

TEST_F(PageCacheTest, Restore_intoAnotherLayoutOfAnotherClient_isBitExact) {
  const Keys keys(kPages);
  EngineCache writer_engine(shape, Physical::kTokenHead, kPages);
  PageCache writer = open_cache(client, writer_engine.layout());
  store(writer, writer_engine, keys);

  for (const Physical physical : {Physical::kTokenHead, Physical::kHeadToken, Physical::kPacked}) {
    EngineCache engine(shape, physical, 3 * kPages);
    PageCache cache = open_cache(reader, engine.layout());
    ReadPlan plan = pin(reader, reader_ns, keys);
    ASSERT_EQ(plan.size(), kPages);
    const std::vector<std::int64_t> pages = numbers(kPages, 3 * kPages - 1, -3);
    const RestoreItem item{.plan = &plan, .pages = {pages}};
    auto restore = cache.restore({&item, 1});
    ASSERT_TRUE(restore.has_value()) << restore.error().message;
    const auto valid = restore->wait(kLong);
    ASSERT_TRUE(valid.has_value()) << valid.error().message;
    EXPECT_EQ(**valid, std::vector<std::uint32_t>{kPages});
    EXPECT_TRUE(restore->done());
    for (std::size_t i = 0; i < kPages; ++i) {
      EXPECT_TRUE(engine.holds(pages[i], i)) << i;
      const std::vector<std::byte> value = engine.value(i);
      EXPECT_TRUE(std::ranges::equal(plan.view(i), value)) << i;  // the canonical order
    }
    EXPECT_TRUE(engine.padding_intact());
    EXPECT_TRUE(reader.release_views(plan).has_value());
    EXPECT_EQ(cache.stats().pages_restored, kPages);
    EXPECT_EQ(cache.stats().running, 0U);
  }
  EXPECT_EQ(writer.stats().bytes_backed_up, kPages * shape.value_len());
  expect_nothing_open(client);
  expect_nothing_open(reader);
}

TEST_F(PageCacheTest, Restore_ofAFlippedByte_missesItsPageAndAllAfterIt) {
  const Keys keys(kPages);
  EngineCache engine(shape, Physical::kTokenHead, kPages);
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, keys);
  ReadPlan plan = pin(client, pages_ns, keys);
  std::byte* const page = in_segment(plan, 5);
  ASSERT_NE(page, nullptr);
  page[12'345 % shape.value_len()] ^= std::byte{0x10};

  const std::vector<std::int64_t> pages = numbers(kPages);
  const RestoreItem item{.plan = &plan, .pages = {pages}};
  auto restore = cache.restore({&item, 1});
  ASSERT_TRUE(restore.has_value());
  EXPECT_EQ(**restore->wait(kLong), std::vector<std::uint32_t>{5});
  EXPECT_EQ(plan.valid_len(), 5U);
  EXPECT_TRUE(plan.view(7).empty());
  EXPECT_EQ(cache.stats().mismatches, 1U);
  EXPECT_EQ(client.stats().mismatches, 1U);
  // A second restore of the same plan does not touch what is a miss already.
  engine.clear(std::byte{0x77});
  auto again = cache.restore({&item, 1});
  EXPECT_EQ(**again->wait(kLong), std::vector<std::uint32_t>{5});
  EXPECT_TRUE(engine.holds(4, 4));
  EXPECT_FALSE(engine.holds(6, 6));
  EXPECT_TRUE(client.release_views(plan).has_value());
  // The node found it, too: the page is gone for everybody, those before it are not.
  EXPECT_TRUE(eventually([&] { return reader.exists(reader_ns, keys)->prefix_len == 5; }));
  EXPECT_TRUE(reader.exists(reader_ns, keys)->present[4]);
  EXPECT_FALSE(reader.exists(reader_ns, keys)->present[5]);
  expect_nothing_open(client);
}

TEST_F(PageCacheTest, Backup_ofSeveralPlans_answersEachOfThem) {
  EngineCache engine(shape, Physical::kHeadToken, kPages);
  PageCache cache = open_cache(client, engine.layout());
  const Keys first(4, "a"), second(3, "b"), third(5, "a", 2);  // a2, a3 are written already
  PutPlan one = start(client, pages_ns, first);
  PutPlan two = start(client, pages_ns, second);
  PutPlan overlapping = start(client, pages_ns, third);
  ASSERT_EQ(overlapping.prepared(), 3U);
  for (std::int64_t page = 0; page < 12; ++page)
    engine.fill(page, static_cast<std::uint64_t>(page));
  const auto a = numbers(4), b = numbers(3, 4), c = numbers(5, 7);
  const BackupItem items[] = {{&one, {a}}, {&two, {b}}, {&overlapping, {c}}};
  auto backup = cache.backup(items);
  ASSERT_TRUE(backup.has_value()) << backup.error().message;
  EXPECT_EQ(one.size(), 0U);  // consumed
  const auto outcomes = backup->wait(kLong);
  ASSERT_TRUE(outcomes.has_value() && outcomes->has_value());
  ASSERT_EQ((*outcomes)->size(), 3U);
  EXPECT_EQ((**outcomes)[0], std::vector<Outcome>(4, Outcome::kStored));
  EXPECT_EQ((**outcomes)[1], std::vector<Outcome>(3, Outcome::kStored));
  EXPECT_EQ((**outcomes)[2],
            (std::vector<Outcome>{Outcome::kInFlight, Outcome::kInFlight, Outcome::kStored,
                                  Outcome::kStored, Outcome::kStored}));
  // Of the third plan the pages of its own keys, not of those that were skipped.
  ReadPlan plan = pin(client, pages_ns, Keys(7, "a"));
  ASSERT_EQ(plan.size(), 7U);
  const std::uint64_t seeds[] = {0, 1, 2, 3, 9, 10, 11};
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_TRUE(std::ranges::equal(plan.view(i), engine.value(seeds[i]))) << i;
  EXPECT_EQ(cache.stats().pages_backed_up, 10U);
}

TEST_F(PageCacheTest, Backup_withoutAnyMemory_answersWhyAtOnce) {
  EngineCache engine(shape, Physical::kHeadToken, kPages);
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, Keys(2));
  PutPlan plan = start(client, pages_ns, Keys(2));
  ASSERT_EQ(plan.prepared(), 0U);
  const auto pages = numbers(2);
  const BackupItem item{&plan, {pages}};
  auto backup = cache.backup({&item, 1});
  ASSERT_TRUE(backup.has_value());
  EXPECT_TRUE(backup->done());
  EXPECT_EQ((**backup->wait(Milliseconds{0}))[0], std::vector<Outcome>(2, Outcome::kExists));
}

TEST_F(PageCacheTest, Restore_inLayerRanges_isCheckedAsAWhole) {
  const Keys keys(kPages);
  EngineCache engine(shape, Physical::kTokenHead, kPages);
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, keys);
  ReadPlan plan = pin(client, pages_ns, keys);
  const auto pages = numbers(kPages);
  const RestoreItem item{.plan = &plan, .pages = {pages}};

  engine.clear();
  auto whole = cache.restore({&item, 1}, {.ranges = {{0, 1}, {1, 3}, {3, 4}}});
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->ranges(), 3U);
  ASSERT_TRUE(whole->stream_wait(0, nullptr).has_value());
  EXPECT_TRUE(whole->range_done(0));
  for (std::size_t i = 0; i < kPages; ++i)
    EXPECT_TRUE(engine.holds_layers(pages[i], i, {0, 1})) << i;
  EXPECT_EQ(**whole->wait(kLong), std::vector<std::uint32_t>{kPages});
  for (std::size_t i = 0; i < kPages; ++i) EXPECT_TRUE(engine.holds(pages[i], i)) << i;

  engine.clear();
  auto some = cache.restore({&item, 1}, {.ranges = {{2, 3}}});
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_EQ(**some->wait(kLong), std::vector<std::uint32_t>{kPages});
  EXPECT_TRUE(engine.holds_layers(0, 0, {2, 3}));
  EXPECT_FALSE(engine.holds_layers(0, 0, {1, 2}));

  // A fault outside of the range counts: the value is wrong.
  in_segment(plan, 3)[7] ^= std::byte{1};  // layer 0
  auto wrong = cache.restore({&item, 1}, {.ranges = {{2, 3}}});
  EXPECT_EQ(**wrong->wait(kLong), std::vector<std::uint32_t>{3});
}

TEST_F(PageCacheTest, Restore_ofPlansOfACohort_takesTheRankAskedFor) {
  NamespaceDescriptor other = descriptor(shape.value_len(), "paged");
  other.tp_rank = 1;
  other.tp_size = 2;
  NamespaceDescriptor own = other;
  own.tp_rank = 0;
  const Namespace ranks[] = {*client.open_namespace(own), *client.open_namespace(other)};
  EngineCache engine(shape, Physical::kPacked, 8);
  PageCache cache = open_cache(client, engine.layout());
  const Keys keys(4);
  for (std::int64_t page = 0; page < 8; ++page) engine.fill(page, static_cast<std::uint64_t>(page));
  PutPlan zero = start(client, ranks[0], keys), one = start(client, ranks[1], keys);
  const auto low = numbers(4), high = numbers(4, 4);
  const BackupItem items[] = {{&zero, {low}}, {&one, {high}}};
  ASSERT_TRUE(cache.backup(items)->wait(kLong)->has_value());

  auto handle = client.get_start_cohort(ranks, keys);
  auto plan = client.get_transfer(*handle);
  ASSERT_EQ(plan->size(), 4U);
  engine.clear();
  const RestoreItem both[] = {{&*plan, {low}, 0}, {&*plan, {high}, 1}};
  auto restore = cache.restore(both);
  ASSERT_TRUE(restore.has_value()) << restore.error().message;
  EXPECT_EQ(**restore->wait(kLong), (std::vector<std::uint32_t>{4, 4}));
  for (std::int64_t page = 0; page < 8; ++page)
    EXPECT_TRUE(engine.holds(page, static_cast<std::uint64_t>(page))) << page;
}

// ---- refused -----------------------------------------------------------------------------------

TEST_F(PageCacheTest, Open_ofWhatIsWrong_saysWhat) {
  EngineCache engine(shape, Physical::kTokenHead, 2);
  auto wrong = PageCache::open(client, engine.layout(), shape.value_len() + 8);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  Client nowhere({.socket = "/tmp/no-such-orlop.sock", .call_budget = Milliseconds{1}});
  EXPECT_EQ(PageCache::open(nowhere, engine.layout(), shape.value_len()).error().code,
            ErrorCode::kNoNode);
  auto staged = PageCache::open(client, engine.layout(), shape.value_len(),
                                {.engine = CopyEngineChoice::kStaged});
  ASSERT_FALSE(staged.has_value());
  EXPECT_NE(staged.error().message.find("staged"), std::string::npos) << staged.error().message;
}

// As an address of a GPU is to a process without CUDA: reserved, and not for the CPU.
TEST_F(PageCacheTest, Open_onAddressesThatTheCpuCannotRead_isRefused) {
  EngineCache engine(shape, Physical::kTokenHead, 2);
  void* const reserved =
      ::mmap(nullptr, engine.memory_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(reserved, MAP_FAILED);
  auto cache = PageCache::open(client, engine.layout_at(reinterpret_cast<std::uint64_t>(reserved)),
                               shape.value_len());
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(cache.error().message.find("orlop doctor"), std::string::npos);
  ::munmap(reserved, engine.memory_bytes());
}

TEST_F(PageCacheTest, Items_thatAreWrong_leaveThePlansAsTheyWere) {
  EngineCache engine(shape, Physical::kTokenHead, 4);
  PageCache cache = open_cache(client, engine.layout());
  PageCache foreign = open_cache(reader, engine.layout());
  PutPlan plan = start(client, pages_ns, Keys(3));
  const auto right = numbers(3), few = numbers(2), beyond = numbers(3, 2);
  const auto refused = [&](PageCache& by, const BackupItem& item, ErrorCode code,
                           std::string_view text) {
    const BackupItem items[] = {item};
    auto backup = by.backup(items);
    ASSERT_FALSE(backup.has_value()) << text;
    EXPECT_EQ(backup.error().code, code) << backup.error().message;
    EXPECT_NE(backup.error().message.find(text), std::string::npos) << backup.error().message;
    EXPECT_EQ(plan.prepared(), 3U);
  };
  refused(cache, {&plan, {few}}, ErrorCode::kInvalidArgument, "items[0]");
  refused(cache, {&plan, {beyond}}, ErrorCode::kInvalidArgument, "4");
  refused(cache, {&plan, {right, right}}, ErrorCode::kInvalidArgument, "items[0]");
  refused(cache, {nullptr, {right}}, ErrorCode::kInvalidArgument, "plan: is null");
  refused(foreign, {&plan, {right}}, ErrorCode::kWrongState, "another client");
  const BackupItem twice[] = {{&plan, {right}}, {&plan, {right}}};
  EXPECT_NE(cache.backup(twice).error().message.find("items[1]: plan: comes twice"),
            std::string::npos);
  auto other = client.put_start(ns, Keys(1, "short"));
  const auto one = numbers(1);
  const BackupItem short_values{&*other, {one}};
  EXPECT_EQ(cache.backup({&short_values, 1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache.stats().backups, 0U);
  // And it can still be committed.
  const BackupItem item{&plan, {right}};
  EXPECT_EQ((**cache.backup({&item, 1})->wait(kLong))[0],
            std::vector<Outcome>(3, Outcome::kStored));
  EXPECT_EQ(cache.backup({&item, 1}).error().code, ErrorCode::kWrongState);  // used up
}

TEST_F(PageCacheTest, Restore_intoOnePageTwice_isRefused) {
  const Keys keys(4);
  EngineCache engine(shape, Physical::kTokenHead, 8);
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, keys);
  ReadPlan one = pin(client, pages_ns, keys), two = pin(client, pages_ns, keys);
  const std::vector<std::int64_t> apart{0, 1, 2, 3}, within{4, 5, 6, 5}, across{4, 5, 2, 6};
  const auto refused = [&](std::span<const std::int64_t> second, std::string_view text) {
    const RestoreItem items[] = {{.plan = &one, .pages = {apart}},
                                 {.plan = &two, .pages = {second}}};
    auto restore = cache.restore(items);
    ASSERT_FALSE(restore.has_value()) << text;
    EXPECT_EQ(restore.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(restore.error().message.find(text), std::string::npos) << restore.error().message;
  };
  refused(within,
          "items[1]: pages of pool 0: number 5 comes twice in this call, first in items[1]");
  refused(across,
          "items[1]: pages of pool 0: number 2 comes twice in this call, first in items[0]");
  EXPECT_EQ(cache.stats().restores, 0U);
  // A backup may read a page as often as it likes.
  PutPlan plan = start(client, pages_ns, Keys(4, "same"));
  const BackupItem item{&plan, {within}};
  EXPECT_EQ((**cache.backup({&item, 1})->wait(kLong))[0],
            std::vector<Outcome>(4, Outcome::kStored));
}

TEST_F(PageCacheTest, Ranges_thatAreWrong_areNamed) {
  const Keys keys(2);
  EngineCache engine(shape, Physical::kTokenHead, 2);
  PageCache cache = open_cache(client, engine.layout());
  store(cache, engine, keys);
  ReadPlan plan = pin(client, pages_ns, keys);
  const auto pages = numbers(2);
  const RestoreItem item{.plan = &plan, .pages = {pages}};
  EXPECT_NE(cache.restore({&item, 1}, {.ranges = {{0, 2}, {1, 4}}})
                .error()
                .message.find("ranges[1]: overlaps"),
            std::string::npos);
  EXPECT_NE(cache.restore({&item, 1}, {.ranges = {{0, 9}}}).error().message.find("ranges[0]"),
            std::string::npos);
  // Layers of 4 bytes each: no border but the value's end can be one, whatever is left out.
  std::byte tiny[64] = {};
  KvLayout odd;
  for (std::uint32_t layer = 0; layer < 2; ++layer)
    odd.parts.push_back({.layer = layer,
                         .base = reinterpret_cast<std::uint64_t>(tiny) + 32 * layer,
                         .pages = 2,
                         .page_stride = 16,
                         .row_bytes = 4});
  auto few = PageCache::open(client, odd, 8);
  ASSERT_TRUE(few.has_value()) << few.error().message;
  auto torn = few->restore({}, {.ranges = {{0, 1}, {1, 2}}});
  ASSERT_FALSE(torn.has_value());
  EXPECT_NE(torn.error().message.find("ranges[0]: takes bytes 0 to 4"), std::string::npos)
      << torn.error().message;
  EXPECT_TRUE(few->restore({}, {.ranges = {{0, 2}}}).has_value());
  const RestoreItem rank{.plan = &plan, .pages = {pages}, .rank = 1};
  EXPECT_NE(cache.restore({&rank, 1}).error().message.find("rank: is 1"), std::string::npos);
  expect_nothing_open(reader);
}

}  // namespace
}  // namespace orlop::client::testing
