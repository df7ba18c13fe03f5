// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_memory.h"

#include <gtest/gtest.h>

#include "segment/geometry.h"

namespace orlop::cli {
namespace {

TEST(ReplayMemory, Free_slots_are_beside_the_pages_and_slabs_are_whole) {
  for (const std::uint64_t pages : {1ull, 100ull, 10'000ull, 1'000'000ull}) {
    for (const std::uint64_t value : {64ull, 4096ull, 65'536ull, 4'718'592ull}) {
      const std::uint64_t put = 250;
      const auto memory = replay_memory(pages, put, value);
      ASSERT_TRUE(memory.has_value()) << memory.error().message;
      const auto geometry = segment::make_geometry(memory->capacity, value);
      ASSERT_TRUE(geometry.has_value()) << geometry.error().message;
      EXPECT_EQ(geometry->value_bytes(), memory->capacity) << "not whole slabs";
      EXPECT_EQ(std::uint64_t{geometry->slab_count} *
                    segment::slots_per_slab(geometry->slab_bytes, value),
                memory->slots);
      EXPECT_GE(memory->slots, pages + put);
      EXPECT_EQ(memory->reserve_bytes, (memory->slots - pages) * segment::slot_bytes(value));
    }
  }
}

TEST(ReplayMemory, The_public_traces_capacity) {
  // 10,000 + 246 pages of 4 KiB: 40 MiB and a bit, in slabs of 1 MiB.
  EXPECT_EQ(*replay_memory(10'000, 246, 4096),
            (ReplayMemory{41ull << 20, 41 * 256, (41 * 256 - 10'000) * 4096ull}));
}

TEST(ReplayMemory, Impossible_sizes_are_refused) {
  EXPECT_FALSE(replay_memory(10, 1, 1ull << 30).has_value());
  EXPECT_FALSE(replay_memory(1ull << 40, 1, 4096).has_value());
}

}  // namespace
}  // namespace orlop::cli
