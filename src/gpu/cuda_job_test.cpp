// SPDX-License-Identifier: Apache-2.0
// What of a CUDA job can be seen without a device: a job without slices, whose lane is this test.
#include "gpu/cuda_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace orlop::gpu {
namespace {

// What the device writes, in memory of the test. cudaFreeHost refuses memory that is not its own;
// that harms nobody.
struct alignas(64) Words {
  std::byte bytes[LaneProgress::kBytes] = {};
};
std::shared_ptr<const LaneProgress> progress_in(Words& words) {
  return std::make_shared<const LaneProgress>(PinnedMemory(words.bytes));
}

TEST(CudaJob, A_wait_of_any_length_lasts_until_the_job_ends) {
  Words words;
  CudaJob job({}, {}, progress_in(words));
  std::thread lane([&] {
    // Long after a waiter stops to spin; a slower one sees the job done at once.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job.close(std::nullopt);
    job.announce();
  });
  EXPECT_TRUE(job.wait(std::chrono::milliseconds::max()));
  lane.join();
  EXPECT_TRUE(job.result().has_value());
}

TEST(CudaJob, A_wait_with_no_time_left_returns) {
  Words words;
  CudaJob job({}, {}, progress_in(words));
  for (const auto timeout : {std::chrono::milliseconds(0), std::chrono::milliseconds(-5),
                             std::chrono::milliseconds::min()}) {
    EXPECT_FALSE(job.wait(timeout));
  }
}

TEST(LaneProgress, A_brief_slice_ends_with_the_last_of_its_blocks) {
  Words words;
  const auto progress = progress_in(words);
  for (std::size_t block = 0; block < kBriefBlocks; ++block) {
    EXPECT_EQ(progress->ticket(), 0u);
    progress->block_words()[block] = 3;
  }
  EXPECT_EQ(progress->ticket(), 3u);
}

TEST(LaneProgress, Words_of_blocks_and_the_other_take_turns) {
  Words words;
  const auto progress = progress_in(words);
  const auto blocks_say = [&](std::uint64_t ticket) {
    std::fill_n(progress->block_words(), kBriefBlocks, ticket);
  };
  blocks_say(1);
  *progress->word() = 2;  // a slice of another kind
  EXPECT_EQ(progress->ticket(), 2u);
  progress->block_words()[0] = 3;  // the next brief one has begun to end
  EXPECT_EQ(progress->ticket(), 2u);
  blocks_say(3);
  EXPECT_EQ(progress->ticket(), 3u);
}

}  // namespace
}  // namespace orlop::gpu
