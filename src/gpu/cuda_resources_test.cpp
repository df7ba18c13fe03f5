// SPDX-License-Identifier: Apache-2.0
// The pool of pinned blocks on memory of the test. cudaFreeHost refuses what is not its own; that
// harms nobody.
#include "gpu/cuda_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace orlop::gpu {
namespace {

using testing::HasSubstr;

constexpr std::size_t kLeast = PinnedPool::kLeastBlock;
constexpr std::size_t kKept = PinnedPool::kMostKeptBytes;
constexpr std::size_t kMost = PinnedPool::kMostBytes;

// Addresses that nobody touches, each once.
class Pool {
 public:
  PinnedPool& operator*() { return *pool_; }
  std::size_t made() const { return made_; }
  bool fails = false;

  std::vector<PinnedPool::Block> take(std::size_t count, std::size_t bytes) {
    std::vector<PinnedPool::Block> blocks;
    for (std::size_t i = 0; i < count; ++i) {
      auto block = pool_->take(bytes);
      EXPECT_TRUE(block.has_value()) << i;
      if (!block) break;
      blocks.push_back(*std::move(block));
    }
    return blocks;
  }

 private:
  Result<PinnedMemory> make(std::size_t /*bytes*/) {
    if (fails) return fail(ErrorCode::kNoMemory, "cudaHostAlloc: out of memory (2)");
    return PinnedMemory(reinterpret_cast<std::byte*>(++made_ * 4096));
  }
  std::size_t made_ = 0;
  std::shared_ptr<PinnedPool> pool_ =
      std::make_shared<PinnedPool>([this](std::size_t bytes) { return make(bytes); });
};

TEST(PinnedPool, Gives_a_block_again_and_to_one_at_a_time) {
  Pool pool;
  std::byte* first = nullptr;
  {
    const auto blocks = pool.take(2, kLeast - 1);
    EXPECT_NE(blocks[0].data(), blocks[1].data());
    first = blocks[1].data();
    EXPECT_EQ((*pool).bytes_in_use(), 2 * kLeast);
    EXPECT_EQ((*pool).bytes_kept(), 0u);
  }
  EXPECT_EQ((*pool).bytes_in_use(), 0u);
  EXPECT_EQ((*pool).bytes_kept(), 2 * kLeast);
  const auto again = pool.take(2, kLeast);
  EXPECT_EQ(pool.made(), 2u);
  EXPECT_TRUE(again[0].data() == first || again[1].data() == first);
}

TEST(PinnedPool, Keeps_no_more_than_its_limit_in_bytes) {
  Pool pool;
  pool.take(3, kKept / 2);  // given back at once
  EXPECT_EQ((*pool).bytes_kept(), kKept);
  pool.take(1, 2 * kKept);
  EXPECT_EQ((*pool).bytes_kept(), kKept);
  EXPECT_EQ((*pool).bytes_in_use(), 0u);
  pool.take(1, 2 * kKept);
  EXPECT_EQ(pool.made(), 5u) << "what was beyond the limit was freed";
}

TEST(PinnedPool, Full_of_blocks_of_one_size_that_are_free_gives_another_size) {
  Pool pool;
  pool.take(kMost / (kKept / 2), kKept / 2);
  EXPECT_EQ((*pool).bytes_in_use(), 0u);
  EXPECT_EQ(pool.take(1, kLeast).size(), 1u);
}

TEST(PinnedPool, Refuses_more_than_its_limit_in_use_and_goes_on_afterwards) {
  Pool pool;
  {
    const auto all = pool.take(2, kMost / 2);
    const auto more = (*pool).take(1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ErrorCode::kLimit);
    EXPECT_THAT(more.error().message, HasSubstr("2.00 GiB of pinned lists are in use"));
  }
  EXPECT_TRUE((*pool).take(1).has_value());
  const auto longer = (*pool).take(kMost + 1);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kLimit);
  EXPECT_THAT(longer.error().message, HasSubstr("fewer values at once"));
}

TEST(PinnedPool, Counts_nothing_that_could_not_be_made) {
  Pool pool;
  pool.fails = true;
  EXPECT_EQ((*pool).take(1).error().code, ErrorCode::kNoMemory);
  EXPECT_EQ((*pool).bytes_in_use(), 0u);
  pool.fails = false;
  EXPECT_EQ(pool.take(2, kMost / 2).size(), 2u);
}

TEST(PinnedPool, Block_moved_away_from_gives_nothing_back) {
  Pool pool;
  auto block = *(*pool).take(1);
  PinnedPool::Block other;
  other = std::move(block);
  EXPECT_EQ((*pool).bytes_in_use(), kLeast);
  other = {};
  EXPECT_EQ((*pool).bytes_in_use(), 0u);
  EXPECT_EQ((*pool).bytes_kept(), kLeast);
}

}  // namespace
}  // namespace orlop::gpu
