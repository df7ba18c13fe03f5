// SPDX-License-Identifier: Apache-2.0
// A lane whose device is the test: slices are complete when it says so.
#include "gpu/cuda_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gpu/failing_allocations.h"

namespace orlop::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kSliceBytes = 1000;

struct alignas(64) Words {
  std::byte bytes[LaneProgress::kBytes] = {};
};

class Device final : public SliceQueue {
 public:
  Result<void> run(const CudaJob& job, std::size_t slice, std::uint64_t ticket) override {
    if (&job == fails_at) return fail(ErrorCode::kSystem, "cudaMemcpyAsync: broken (1)");
    if (allocates) static_cast<void>(std::make_unique<std::array<std::byte, 64>>());
    submitted.emplace_back(&job, slice);
    last = ticket;
    return {};
  }
  Result<void> record(cudaEvent_t /*event*/) override {
    ++recorded;
    return {};
  }
  cudaError_t state() const override { return cudaSuccess; }
  void drain() override { complete(last); }
  const std::shared_ptr<const LaneProgress>& progress() const override { return progress_; }
  std::uint64_t copy_calls() const override { return 0; }

  void complete(std::uint64_t ticket) { *progress_->word() = ticket; }

  using Submitted = std::pair<const CudaJob*, std::size_t>;
  std::vector<Submitted> submitted;
  std::uint64_t last = 0;
  int recorded = 0;
  const CudaJob* fails_at = nullptr;
  bool allocates = false;

 private:
  Words words_;
  // cudaFreeHost refuses memory that is not its own; that harms nobody.
  std::shared_ptr<const LaneProgress> progress_ =
      std::make_shared<const LaneProgress>(PinnedMemory(words_.bytes));
};

class CudaLaneTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kCallers = 2 * kSliceBytes, kWindow = 4 * kSliceBytes;

  explicit CudaLaneTest(std::uint64_t window = kWindow) {
    auto device = std::make_unique<Device>();
    device_ = device.get();
    lane_ = std::make_shared<CudaLane>(std::move(device), 0, kCallers, window);
  }
  // One range a slice.
  std::shared_ptr<CudaJob> job_of(std::size_t slices) {
    CudaJobParts parts;
    parts.events = events_;
    for (std::size_t i = 0; i < slices; ++i) {
      parts.slices.push_back({.count = 1, .begin = 0, .end = kSliceBytes});
      parts.range_ends.push_back(i + 1);
      parts.range_events.emplace_back();
    }
    parts.sums_at.resize(slices);
    return std::make_shared<CudaJob>(std::move(parts), lane_, lane_->progress());
  }
  std::shared_ptr<CudaJob> add(std::size_t slices) {
    auto job = job_of(slices);
    lane_->add(job);
    return job;
  }
  std::vector<const CudaJob*> told() {
    std::vector<std::shared_ptr<CudaJob>> done;
    lane_->service(done);
    std::vector<const CudaJob*> jobs;
    for (const auto& job : done) jobs.push_back(job.get());
    return jobs;
  }

  const std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  Device* device_ = nullptr;
  std::shared_ptr<CudaLane> lane_;
};

TEST_F(CudaLaneTest, Caller_submits_its_share_and_the_copiers_thread_the_window) {
  const auto job = add(6);
  EXPECT_EQ(device_->submitted.size(), 2u);
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(device_->submitted.size(), 4u);
  device_->complete(3);
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(device_->submitted.size(), 6u);
  EXPECT_TRUE(job->range_done(2));
  EXPECT_FALSE(job->range_done(3));
  device_->complete(6);
  EXPECT_THAT(told(), ElementsAre(job.get()));
  EXPECT_TRUE(job->result().has_value());
  EXPECT_EQ(device_->recorded, 6);
  EXPECT_TRUE(lane_->idle());
}

// As backups in bursts are: between two slices the device has nothing of the lane to do.
class CudaLaneOfBursts : public CudaLaneTest {
 protected:
  CudaLaneOfBursts() : CudaLaneTest(1) {}
};

TEST_F(CudaLaneOfBursts, Slice_goes_when_the_one_before_has_arrived_also_of_the_next_job) {
  const auto first = add(2), second = add(1);
  for (std::size_t submitted = 1; submitted <= 3; ++submitted) {
    told();
    EXPECT_EQ(device_->submitted.size(), submitted) << "none beside another";
    device_->complete(submitted);
  }
  EXPECT_THAT(told(), ElementsAre(second.get())) << "the first was told before";
  EXPECT_TRUE(first->done() && lane_->idle());
}

TEST_F(CudaLaneOfBursts, What_a_stream_waits_for_goes_at_once) {
  const auto job = add(4);
  EXPECT_EQ(device_->submitted.size(), 1u);
  ASSERT_TRUE(lane_->submit_range(*job, 2).has_value());
  EXPECT_EQ(device_->submitted.size(), 3u);
  told();
  EXPECT_EQ(device_->submitted.size(), 3u);
}

TEST_F(CudaLaneTest, Job_cancelled_in_the_queue_is_told_at_once_and_once) {
  const auto first = add(6), second = add(1), third = add(1), fourth = add(1);
  third->cancel();
  ASSERT_TRUE(third->done());
  EXPECT_THAT(told(), ElementsAre(third.get())) << "the jobs before it run";
  EXPECT_EQ(third->result().error().code, ErrorCode::kClosed);
  third->cancel();
  EXPECT_THAT(told(), IsEmpty());
  while (!fourth->done()) {
    device_->complete(device_->last);
    const auto jobs = told();
    EXPECT_EQ(std::ranges::count(jobs, third.get()), 0);
  }
  EXPECT_TRUE(first->result().has_value() && second->result().has_value());
  EXPECT_TRUE(fourth->result().has_value());
  told();
  EXPECT_TRUE(lane_->idle());
  for (const auto& [job, slice] : device_->submitted) EXPECT_NE(job, third.get());
}

TEST_F(CudaLaneTest, Jobs_cancelled_all_over_the_queue_leave_the_others_in_order) {
  std::vector<std::shared_ptr<CudaJob>> jobs;
  for (int i = 0; i < 7; ++i) jobs.push_back(add(1));
  for (const std::size_t i : {6U, 3U, 4U}) jobs[i]->cancel();  // 0 and 1 are on their way
  EXPECT_THAT(told(), ElementsAre(jobs[3].get(), jobs[4].get(), jobs[6].get()));
  device_->complete(device_->last);
  EXPECT_THAT(told(), ElementsAre(jobs[0].get(), jobs[1].get(), jobs[2].get(), jobs[5].get()));
}

TEST_F(CudaLaneTest, Job_cancelled_with_slices_on_their_way_is_told_when_they_are_over) {
  const auto job = add(6);
  const auto next = add(1);
  job->cancel();
  EXPECT_FALSE(job->done()) << "the device still writes";
  EXPECT_THAT(told(), IsEmpty());
  device_->complete(2);
  EXPECT_THAT(told(), ElementsAre(job.get()));
  EXPECT_TRUE(job->range_done(1));
  EXPECT_FALSE(job->range_done(2));
  device_->complete(device_->last);
  EXPECT_THAT(told(), ElementsAre(next.get()));
}

TEST_F(CudaLaneTest, Job_cancelled_after_its_last_slice_succeeds) {
  const auto job = add(2);
  job->cancel();
  device_->complete(2);
  EXPECT_THAT(told(), ElementsAre(job.get()));
  EXPECT_TRUE(job->result().has_value());
}

TEST_F(CudaLaneTest, Slice_that_fails_ends_its_job_and_no_other) {
  const auto first = add(2);
  auto broken = job_of(3);
  device_->fails_at = broken.get();
  lane_->add(broken);
  const auto last = add(1);
  device_->complete(2);
  const auto jobs = told();
  EXPECT_THAT(jobs, ElementsAre(first.get(), broken.get()));
  EXPECT_EQ(broken->result().error().message, "cudaMemcpyAsync: broken (1)");
  device_->complete(device_->last);
  told();
  EXPECT_TRUE(last->done() && last->result().has_value());
}

TEST_F(CudaLaneTest, Range_that_a_stream_waits_for_is_submitted_beyond_the_window) {
  const auto first = add(3), second = add(6);
  ASSERT_TRUE(lane_->submit_range(*second, 4).has_value());
  EXPECT_EQ(device_->submitted.size(), 8u);
  EXPECT_EQ(device_->submitted.back(), Device::Submitted(second.get(), 4));
  second->cancel();
  EXPECT_EQ(lane_->submit_range(*second, 5).error().code, ErrorCode::kWrongState);
  EXPECT_TRUE(lane_->submit_range(*second, 4).has_value()) << "that one is on its way";
}

// Wherever memory runs out: the job is not in the lane and the device knows nothing of it, or it
// is and ends; jobs before and after it go on.
TEST_F(CudaLaneTest, Memory_that_runs_out_ends_the_job_or_never_begins_it) {
  const auto before = add(1);
  bool ended_by_it = false, never_began = false, succeeded = false;
  for (std::uint64_t good = 0; !succeeded; ++good) {
    auto job = job_of(3);
    device_->allocates = true;
    try {
      const testing::FailingAllocation fails(good);
      lane_->add(job);
    } catch (const std::bad_alloc&) {
      never_began = true;
      for (const auto& [submitted, slice] : device_->submitted) ASSERT_NE(submitted, job.get());
      continue;
    }
    device_->allocates = false;
    device_->complete(device_->last);
    for (int i = 0; i < 5 && !job->done(); ++i) {
      told();
      device_->complete(device_->last);
    }
    ASSERT_TRUE(job->done());
    succeeded = job->result().has_value();
    if (succeeded) continue;
    ended_by_it = true;
    EXPECT_EQ(job->result().error().code, ErrorCode::kNoMemory);
    told();
  }
  EXPECT_TRUE(ended_by_it);
  EXPECT_TRUE(before->result().has_value());
  told();
  EXPECT_TRUE(lane_->idle());
  // The queue of jobs takes memory for many at once; this many need some more.
  std::vector<std::shared_ptr<CudaJob>> many;
  for (int i = 0; i < 200 && !never_began; ++i) {
    many.push_back(job_of(1));
    try {
      const testing::FailingAllocation fails(0);
      lane_->add(many.back());
    } catch (const std::bad_alloc&) {
      never_began = true;
    }
  }
  EXPECT_TRUE(never_began);
}

}  // namespace
}  // namespace orlop::gpu
