// SPDX-License-Identifier: Apache-2.0
// What of a CUDA job can be seen without a device: a job without slices, whose lane is this test.
#include "gpu/cuda_job.h"

#include <gtest/gtest.h>

#include <thread>

namespace orlop::gpu {
namespace {

// The device's word in memory of the test. cudaFreeHost refuses memory that is not its own; that
// harms nobody.
std::shared_ptr<const LaneProgress> progress_in(std::uint64_t& word) {
  return std::make_shared<const LaneProgress>(PinnedMemory(reinterpret_cast<std::byte*>(&word)));
}

TEST(CudaJob, A_wait_of_any_length_lasts_until_the_job_ends) {
  std::uint64_t word = 0;
  CudaJob job({}, {}, progress_in(word));
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
  std::uint64_t word = 0;
  CudaJob job({}, {}, progress_in(word));
  for (const auto timeout : {std::chrono::milliseconds(0), std::chrono::milliseconds(-5),
                             std::chrono::milliseconds::min()}) {
    EXPECT_FALSE(job.wait(timeout));
  }
}

}  // namespace
}  // namespace orlop::gpu
