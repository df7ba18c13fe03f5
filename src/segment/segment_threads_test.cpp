// SPDX-License-Identifier: Apache-2.0
// The hazard protocol on real threads, for ThreadSanitizer and for the hardware's own reorderings:
// pinning threads against one node thread. Nothing here depends on time; a thread runs until the
// others have done their share.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "segment/test_segment.h"

namespace orlop::segment {
namespace {

constexpr std::uint32_t kSlots = 32;
constexpr std::uint64_t kKeys = 48;  // more than slots: the node must take pages away
constexpr int kReaders = 2;
constexpr int kPinsEach = 20'000;
constexpr std::size_t kWords = 4;  // of a page's bytes, written and read without atomics

using Pages = std::array<std::array<std::uint64_t, kWords>, kSlots + 1>;

struct Counts {
  std::uint64_t pinned = 0, wrong_identity = 0, wrong_bytes = 0;
};

void read_pages(const TestSegment& segment, TestReader& reader, const Pages& pages,
                std::uint64_t seed, Counts& counts) {
  Rng rng(seed);
  for (int i = 0; i < kPinsEach; ++i) {
    std::array<KeyId, 3> keys;
    std::array<std::uint64_t, 3> numbers;
    for (std::size_t k = 0; k < keys.size(); ++k)
      keys[k] = test_key(numbers[k] = rng.uniform(kKeys));
    const PinResult result = reader.pin(segment.area(), keys);
    for (std::uint32_t k = 0; k < result.pinned; ++k) {
      const SlotId slot = reader.pinned()[k].slot;
      counts.wrong_identity += segment.area().slot(slot).load_key() == keys[k] ? 0 : 1;
      for (const std::uint64_t word : pages[slot.value])
        counts.wrong_bytes += word == numbers[k] ? 0 : 1;
    }
    counts.pinned += result.pinned;
    reader.release();
  }
}

// Takes pages away, one at a time, and gives their slots to pages that are not there.
std::uint64_t churn(TestSegment& segment, Pages& pages, std::span<const ChannelView> channels,
                    const std::atomic<int>& running) {
  std::array<std::uint64_t, kSlots + 1> number_in{};
  std::array<bool, kKeys> resident{};
  for (std::uint32_t s = 1; s <= kSlots; ++s) resident[number_in[s] = s - 1] = true;
  Rng rng(1);
  std::uint64_t reused = 0;
  while (running.load() > 0) {
    const auto slot = static_cast<std::uint32_t>(1 + rng.uniform(kSlots));
    if (!segment.retire(SlotId{slot}, channels)) continue;
    std::uint64_t next = rng.uniform(kKeys);
    while (resident[next]) next = (next + 1) % kKeys;
    resident[number_in[slot]] = false;
    resident[number_in[slot] = next] = true;
    pages[slot].fill(next);
    segment.commit(SlotId{slot}, test_key(next));
    ++reused;
  }
  return reused;
}

TEST(SegmentThreads, Pinned_pages_are_never_another_page) {
  TestSegment segment;
  segment.assign_all_slabs();
  segment.index().ensure_capacity(512);
  Pages pages{};
  for (std::uint32_t s = 1; s <= kSlots; ++s) {
    pages[s].fill(s - 1);
    segment.commit(SlotId{s}, test_key(s - 1));
  }
  std::array<TestReader, kReaders> readers;
  std::array<Counts, kReaders> counts;
  std::atomic<int> running{kReaders};
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r] {
      read_pages(segment, readers[r], pages, 100 + r, counts[r]);
      running.fetch_sub(1);
    });
  }
  std::vector<ChannelView> channels;
  for (const TestReader& reader : readers) channels.push_back(reader.view());
  churn(segment, pages, channels, running);
  for (std::thread& thread : threads) thread.join();
  for (const Counts& c : counts) {
    EXPECT_EQ(c.wrong_identity, 0U);
    EXPECT_EQ(c.wrong_bytes, 0U);
    EXPECT_GT(c.pinned, 0U);
  }
  segment.index().validate();
}

// Pages that stay are found at every moment of growths, while others come and go around them.
TEST(SegmentThreads, Growing_index_never_hides_a_resident_page) {
  TestSegment segment;
  segment.assign_all_slabs();
  KeyIndexWriter& index = segment.index();
  index.ensure_capacity(20);
  segment.punch_idle_place();
  std::vector<KeyId> stable;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    segment.commit(SlotId{i}, test_key(i));
    stable.push_back(test_key(i));
  }
  std::array<TestReader, kReaders> readers;
  std::array<std::atomic<std::uint64_t>, kReaders> rounds{};
  std::atomic<std::uint64_t> misses{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < kReaders; ++r) {
    threads.emplace_back([&, r] {
      while (!stop.load()) {
        if (readers[r].pin(segment.area(), stable).pinned != stable.size()) misses.fetch_add(1);
        readers[r].release();
        rounds[r].fetch_add(1);
      }
    });
  }
  // Every reader finishes a look-up between two switches: it can meet one of them only.
  const auto wait_for_readers = [&] {
    for (auto& round : rounds) {
      const std::uint64_t seen = round.load();
      while (round.load() < seen + 2) std::this_thread::yield();
    }
  };
  std::vector<ChannelView> channels;
  for (const TestReader& reader : readers) channels.push_back(reader.view());
  std::uint32_t slot = 21;
  for (const std::uint64_t wanted : {40U, 80U, 160U, 320U, 512U}) {
    wait_for_readers();
    index.ensure_capacity(wanted);
    while (index.growing()) {
      for (int i = 0; i < 3; ++i, ++slot) segment.commit(SlotId{slot}, test_key(slot));
      EXPECT_TRUE(segment.retire(SlotId{slot - 2}, channels));
      index.grow_slice(1);
    }
    wait_for_readers();
    segment.punch_idle_place();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(misses.load(), 0U);
  EXPECT_EQ(index.buckets(), 128U);
  index.validate();
}

}  // namespace
}  // namespace orlop::segment
