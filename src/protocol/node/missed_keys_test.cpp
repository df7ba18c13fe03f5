// SPDX-License-Identifier: Apache-2.0
// Why keys miss: the bounded memory of what left, and the cause of every sampled key.
#include "protocol/node/missed_keys.h"

#include "protocol/node/node_fixture.h"
#include "segment/missed_ring.h"

namespace orlop::protocol {
namespace {

TEST(GoneKeys, Finds_what_left_by_identity_and_says_how_long_ago) {
  GoneKeys gone;
  gone.left(key(1), NamespaceIndex{1}, MissCause::kRemoved, 10 * kNsPerSecond);
  const auto found = gone.find(key(1), NamespaceIndex{1}, 17 * kNsPerSecond);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cause, MissCause::kRemoved);
  EXPECT_EQ(found->age, 7 * kNsPerSecond);
  EXPECT_FALSE(gone.find(key(1), NamespaceIndex{2}, 0).has_value());
  EXPECT_FALSE(gone.find(key(2), NamespaceIndex{1}, 0).has_value());
  EXPECT_FALSE(GoneKeys().find(KeyId{}, NamespaceIndex{}, 0).has_value());  // an empty place
}

TEST(GoneKeys, The_last_cause_counts) {
  GoneKeys gone;
  gone.left(key(1), NamespaceIndex{1}, MissCause::kRefused, 0);
  gone.left(key(1), NamespaceIndex{1}, MissCause::kEvicted, 0);
  EXPECT_EQ(gone.find(key(1), NamespaceIndex{1}, 0)->cause, MissCause::kEvicted);
}

TEST(GoneKeys, Is_bounded_and_keeps_mostly_the_newest) {
  GoneKeys gone;
  constexpr std::uint64_t kKeys = 4 * GoneKeys::kPlaces;
  for (std::uint64_t i = 0; i < kKeys; ++i)
    gone.left(key(i), NamespaceIndex{1}, MissCause::kEvicted, 0);
  std::uint64_t found = 0, newest = 0;
  for (std::uint64_t i = 0; i < kKeys; ++i) {
    const bool there = gone.find(key(i), NamespaceIndex{1}, 0).has_value();
    found += there ? 1 : 0;
    newest += there && i >= kKeys - 1'000 ? 1 : 0;
  }
  EXPECT_LE(found, GoneKeys::kPlaces);
  EXPECT_GT(found, GoneKeys::kPlaces * 9 / 10);  // 1 - e^-4 of the places
  EXPECT_GT(newest, 980u);
}

class MissedTest : public ::testing::Test {
 protected:
  MissedTest() : MissedTest(NodeWorld::Options{}) {}
  explicit MissedTest(const NodeWorld::Options& options) : world(options) {}

  void miss(const KeyId& of, NamespaceRow in) {
    segment::write_missed(world.channel(client), {of, in});
  }
  std::uint64_t missed(MissCause cause) {
    world.node().read_clients(world.now);
    return world.node().counters().missed[static_cast<std::size_t>(cause)];
  }
  std::uint64_t all_missed() {
    std::uint64_t all = 0;
    for (std::size_t c = 0; c < kMissCauseCount; ++c) all += missed(static_cast<MissCause>(c));
    return all;
  }
  NamespaceTraffic traffic(NamespaceRow of) {
    world.node().read_clients(world.now);
    return world.node().namespaces().at(of.value).traffic;
  }

  NodeWorld world;
  ClientId client = world.attach();
  NamespaceRow row = world.open(client);
};

TEST_F(MissedTest, Never_written) {
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
  EXPECT_EQ(all_missed(), 1u);
}

// The usual order: a get misses, the page is computed and put, then the node drains.
TEST_F(MissedTest, A_miss_from_before_its_put_stays_never_written) {
  miss(key(1), row);
  world.put(client, row, {key(1)});
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
  EXPECT_EQ(all_missed(), 1u);
}

TEST_F(MissedTest, Removed) {
  world.put(client, row, keys(1, 2));
  miss(key(9), row);  // before the remove, so of its time
  world.step(event::Remove{client, world.next_request(), row, std::vector{key(1), key(9)}});
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kRemoved), 1u);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
}

TEST_F(MissedTest, Flushed_also_before_the_slices_have_come_to_it) {
  world.put(client, row, keys(1, 2));
  world.step(event::Flush{client, world.next_request(), row, false});
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kFlushed), 1u);
  world.background();
  miss(key(2), row);
  EXPECT_EQ(missed(MissCause::kFlushed), 2u);
  EXPECT_EQ(all_missed(), 2u);
}

TEST_F(MissedTest, Evicted_and_how_long_ago) {
  world.put(client, row, keys(1, 512));  // all slots
  world.put(client, row, keys(1'000, 100));
  std::uint64_t gone = 0;
  for (const KeyId& k : keys(1, 512)) {
    if (world.find(row, k)) continue;
    miss(k, row);
    ++gone;
  }
  ASSERT_GE(gone, 100u);
  world.now += 30 * kNsPerSecond;
  EXPECT_EQ(missed(MissCause::kEvicted), gone);
  EXPECT_EQ(all_missed(), gone);
  EXPECT_EQ(world.node().counters().missed_evicted_age, gone * 30 * kNsPerSecond);
  EXPECT_EQ(traffic(row).evicted_slots, gone);
}

TEST_F(MissedTest, Refused_for_want_of_space_and_aborted) {
  const auto reserved = world.put_start(client, row, keys(1, 512));
  const auto refused = world.put_start(world.attach("other"), row, {key(1'000)});
  ASSERT_EQ(refused.outcomes, times(1, Outcome::kNoSpace));
  miss(key(1'000), row);
  EXPECT_EQ(missed(MissCause::kRefused), 1u);
  world.abort(client, reserved.put);
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kRefused), 2u);
  // Stored after all, and evicted: the last cause counts.
  world.put(client, row, {key(1'000)});
  world.step(event::Remove{client, world.next_request(), row, std::vector{key(1'000)}});
  miss(key(1'000), row);
  EXPECT_EQ(missed(MissCause::kRemoved), 1u);
}

TEST_F(MissedTest, Readable_in_another_namespace_of_the_family_only) {
  const NamespaceRow rank1 = world.open(client, 4'096, "model", 1);
  const NamespaceRow other_model = world.open(client, 4'096, "another");
  world.put(client, rank1, {key(1)});
  world.put(client, other_model, {key(2)});
  miss(key(1), row);
  miss(key(2), row);  // by chance the same key: another family
  EXPECT_EQ(missed(MissCause::kOtherNamespace), 1u);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
  EXPECT_EQ(traffic(row).missed[static_cast<std::size_t>(MissCause::kOtherNamespace)], 1u);
  EXPECT_EQ(traffic(rank1).missed, (std::array<std::uint64_t, kMissCauseCount>{}));
}

TEST_F(MissedTest, What_left_another_rank_is_not_ours) {
  const NamespaceRow rank1 = world.open(client, 4'096, "model", 1);
  world.put(client, rank1, {key(1)});
  world.step(event::Remove{client, world.next_request(), rank1, std::vector{key(1)}});
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
  EXPECT_EQ(all_missed(), 1u);
}

TEST_F(MissedTest, A_hostile_ring_costs_a_count) {
  for (const std::uint32_t bad : {1U, 1023U, 1024U, ~0U}) miss(key(1), NamespaceRow{bad});
  EXPECT_EQ(all_missed(), 0u);
  EXPECT_EQ(world.node().counters().missed_lost, 4u);
  world.channel(client).header().missed_tail.store(0x8000'0000U);
  world.node().read_clients(world.now);
  EXPECT_LE(all_missed(), segment::kMissedCells);
}

TEST_F(MissedTest, An_event_drains_a_bounded_part) {
  for (std::uint64_t i = 0; i < 1'000; ++i) miss(key(i), row);
  world.put_start(client, row, {key(5'000)});
  const auto& counted = world.node().counters().missed;
  EXPECT_EQ(counted[static_cast<std::size_t>(MissCause::kNeverWritten)], 64u);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1'000u);
}

class MissedByManyTest : public MissedTest {
 protected:
  static constexpr std::uint64_t kEach = 100;
  MissedByManyTest() {
    for (int i = 0; i < 40; ++i) clients.push_back(world.attach());
  }
  void all_miss() {
    for (const ClientId one : clients)
      for (std::uint64_t i = 0; i < kEach; ++i)
        segment::write_missed(world.channel(one), {key(i), row});
  }
  // A remove looks at the misses of all.
  std::uint64_t counted_by_a_remove() {
    const auto& counted = world.node().counters().missed;
    const std::uint64_t before = counted[static_cast<std::size_t>(MissCause::kNeverWritten)];
    world.step(event::Remove{client, world.next_request(), row, std::vector{key(9'999)}});
    return counted[static_cast<std::size_t>(MissCause::kNeverWritten)] - before;
  }
  std::vector<ClientId> clients;
};

TEST_F(MissedByManyTest, An_event_drains_a_part_that_does_not_grow_with_the_clients) {
  all_miss();
  EXPECT_EQ(counted_by_a_remove(), 1'024u);
  std::uint64_t rest = clients.size() * kEach - 1'024;
  for (; rest >= 1'024; rest -= 1'024) EXPECT_EQ(counted_by_a_remove(), 1'024u);
  EXPECT_EQ(counted_by_a_remove(), rest);
  EXPECT_EQ(world.node().counters().missed_lost, 0u);
}

TEST_F(MissedByManyTest, Who_misses_much_takes_nobodys_turn) {
  for (int round = 0; round < 40; ++round) {
    for (std::uint64_t i = 0; i < 1'000; ++i)
      segment::write_missed(world.channel(clients[0]), {key(i), row});
    segment::write_missed(world.channel(clients[20]), {key(1), row});
    counted_by_a_remove();
  }
  for (const ClientId one : clients) {
    if (one == clients[0]) continue;
    EXPECT_FALSE(segment::MissedReader(world.channel(one)).pending());
  }
  // All that was told but what still waits in the one ring.
  EXPECT_GE(missed(MissCause::kNeverWritten) + world.node().counters().missed_lost, 40'040u);
}

// A look into 63 other ranks costs as much as 63 keys.
TEST_F(MissedByManyTest, Look_ups_in_other_namespaces_count) {
  for (std::uint32_t rank = 1; rank < 8; ++rank) world.open(client, 4'096, "model", rank);
  all_miss();
  EXPECT_EQ(counted_by_a_remove(), 1'024u / 8);
}

TEST_F(MissedByManyTest, A_status_drains_a_bounded_part) {
  for (int i = 0; i < 40; ++i) clients.push_back(world.attach());
  for (int i = 0; i < 10; ++i) all_miss();  // 1,000 each: 80,000
  EXPECT_EQ(missed(MissCause::kNeverWritten), 16'384u);
}

TEST_F(MissedTest, What_a_client_told_before_it_detached_counts) {
  const auto started = world.put(client, row, {key(1)});
  const ClientId reader = world.attach("reader");
  world.touch(reader, SlotId{started.grants[0].slot});
  segment::write_missed(world.channel(reader), {key(2), row});
  world.step(event::Detach{reader, world.next_request()});
  EXPECT_EQ(world.node().counters().touches, 1u);
  EXPECT_EQ(world.node().namespaces()[0].traffic.touches, 1u);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
}

TEST_F(MissedTest, A_restart_forgets_and_the_sample_starts_anew) {
  world.put(client, row, {key(1)});
  world.step(event::Remove{client, world.next_request(), row, std::vector{key(1)}});
  miss(key(1), row);
  world.restart();
  EXPECT_EQ(all_missed(), 0u);
  miss(key(1), row);
  EXPECT_EQ(missed(MissCause::kNeverWritten), 1u);
}

TEST_F(MissedTest, Namespaces_count_their_own) {
  const NamespaceRow rank1 = world.open(client, 4'096, "model", 1);
  world.put(client, row, keys(1, 3));
  world.now += kNsPerSecond;
  const auto started = world.put(client, rank1, keys(1, 2));
  world.touch(client, SlotId{started.grants[0].slot});
  world.now += kNsPerSecond;
  const NamespaceTraffic own = traffic(row), other = traffic(rank1);
  EXPECT_EQ(own.keys_offered, 3u);
  EXPECT_EQ(own.outcomes[static_cast<std::size_t>(Outcome::kStored)], 3u);
  EXPECT_EQ(own.touches, 0u);
  EXPECT_EQ(own.last_put, world.now - 2 * kNsPerSecond);
  EXPECT_EQ(own.last_hit, 0u);
  EXPECT_EQ(other.keys_offered, 2u);
  EXPECT_EQ(other.touches, 1u);
  EXPECT_EQ(other.last_hit, world.now);
  EXPECT_EQ(world.node().namespaces()[0].readable_bytes, 3 * 4'096u);
  // A flush changes no counter, but what is readable.
  world.step(event::Flush{client, world.next_request(), row, false});
  EXPECT_EQ(traffic(row).keys_offered, 3u);
  EXPECT_EQ(world.node().namespaces()[0].readable_bytes, 0u);
}

TEST_F(MissedTest, Reports_of_clients_that_left_stay_in_the_sums) {
  const ClientId other = world.attach("other");
  segment::ReportCounters told;
  told.gets = 10;
  segment::store_report(world.channel(client).report(), told, {});
  told.gets = 5;
  told.misses[1] = 2;
  segment::store_report(world.channel(other).report(), told, {.oldest_read_plan = 1});
  world.step(event::Detach{other, world.next_request()});
  EXPECT_EQ(world.node().traffic().gets, 5u);
  world.node().read_clients(world.now);
  EXPECT_EQ(world.node().traffic().gets, 15u);
  EXPECT_EQ(world.node().traffic().misses[1], 2u);
  const auto clients = world.node().clients(world.now);
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].traffic.gets, 10u);
  world.forget_channel(other);
  // After a restart the sums begin at 0, the client's own numbers go on.
  world.restart();
  world.node().read_clients(world.now);
  EXPECT_EQ(world.node().traffic().gets, 0u);
  EXPECT_EQ(world.node().clients(world.now)[0].traffic.gets, 10u);
}

TEST_F(MissedTest, Start_times_in_the_future_are_no_age) {
  segment::store_report(world.channel(client).report(), {},
                        {.oldest_read_plan = kNever, .published = kNever});
  const auto told = world.node().clients(world.now)[0];
  EXPECT_EQ(told.oldest_read_plan_age, 0u);
  EXPECT_EQ(told.report_age, 0u);
  segment::store_report(world.channel(client).report(), {},
                        {.oldest_read_plan = world.now - kNsPerSecond});
  EXPECT_EQ(world.node().clients(world.now)[0].oldest_read_plan_age, kNsPerSecond);
}

}  // namespace
}  // namespace orlop::protocol
