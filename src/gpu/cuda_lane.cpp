// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_lane.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/check.h"
#include "gpu/cuda_call.h"
#include "gpu/device_scope.h"

namespace orlop::gpu {
namespace {

// Between two looks at a lane that copies. Half of the time that the rest should take, so that the
// end of a long batch is seen soon and a batch of a second costs a few hundred looks.
constexpr std::uint64_t kLeastPauseNs = 5'000;
constexpr std::uint64_t kMostPauseNs = 200'000;
// A link of PCIe 5 x16 (55 GB/s); a slower one is only looked at more often.
constexpr std::uint64_t kBytesPerNs = 55;
// A lane that does not move is asked for errors so often.
constexpr std::uint64_t kTroubleNs = 5'000'000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

class RunnerQueue final : public SliceQueue {
 public:
  explicit RunnerQueue(std::unique_ptr<SliceRunner> runner) : runner_(std::move(runner)) {}
  Result<void> run(const CudaJob& job, std::size_t slice, std::uint64_t ticket) override {
    return runner_->run(job, slice, ticket);
  }
  Result<void> record(cudaEvent_t event) override { return runner_->record(event); }
  cudaError_t state() const override { return runner_->state(); }
  void drain() override { runner_->drain(); }
  const std::shared_ptr<const LaneProgress>& progress() const override {
    return runner_->progress();
  }
  std::uint64_t copy_calls() const override { return runner_->copy_calls(); }

 private:
  const std::unique_ptr<SliceRunner> runner_;
};

}  // namespace

std::unique_ptr<SliceQueue> queue_of(std::unique_ptr<SliceRunner> runner) {
  return std::make_unique<RunnerQueue>(std::move(runner));
}

void CudaLane::add(std::shared_ptr<CudaJob> job) {
  const DeviceScope scope(device_);
  const std::lock_guard lock(mutex_);
  if (job->parts.slices.empty()) job->close(std::nullopt);
  jobs_.push_back(std::move(job));
  retire();
  submit_within(callers_bytes_);
}

std::uint64_t CudaLane::service(std::vector<std::shared_ptr<CudaJob>>& done) {
  const DeviceScope scope(device_);
  const std::lock_guard lock(mutex_);
  retire();
  submit_within(window_bytes_);
  look_for_trouble();
  take_done(done);
  if (jobs_.empty()) return kMostPauseNs;
  const std::uint64_t expected = bytes_on_their_way_ / kBytesPerNs;
  const std::uint64_t passed = now_ns() - moved_ns_;
  return std::clamp(expected > passed ? (expected - passed) / 2 : 0, kLeastPauseNs, kMostPauseNs);
}

void CudaLane::take_done(std::vector<std::shared_ptr<CudaJob>>& done) {
  const bool all = std::exchange(cancelled_, false);
  for (std::size_t i = 0; i < jobs_.size();) {
    if (jobs_[i]->done()) {
      done.push_back(std::move(jobs_[i]));
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
      if (i < first_open_) --first_open_;
    } else if (all) {
      ++i;
    } else {
      return;  // slices end in their order
    }
  }
}

bool CudaLane::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty();
}

std::uint64_t CudaLane::bytes_on_their_way() {
  const std::lock_guard lock(mutex_);
  retire();
  return bytes_on_their_way_;
}

CudaLane::Counts CudaLane::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.copy_calls = runner_->copy_calls();
  return counts;
}

void CudaLane::retire() {
  const std::uint64_t ticket = runner_->progress()->ticket();
  while (!on_their_way_.empty() && on_their_way_.front().ticket <= ticket) {
    bytes_on_their_way_ -= on_their_way_.front().bytes;
    on_their_way_.pop_front();
    moved_ns_ = now_ns();
  }
}

void CudaLane::submit_within(std::uint64_t most_bytes) {
  const std::uint64_t start = now_ns();
  const std::uint64_t before = counts_.slices;
  while (first_open_ < jobs_.size() && bytes_on_their_way_ < most_bytes) submit_next();
  if (counts_.slices != before) {
    moved_ns_ = now_ns();
    counts_.submit_seconds += static_cast<double>(moved_ns_ - start) * 1e-9;
  }
}

void CudaLane::submit_next() {
  CudaJob& job = *jobs_[first_open_];
  if (job.closed() || job.submitted_all()) {
    job.close(std::nullopt);
    ++first_open_;
    return;
  }
  const std::uint64_t ticket = last_ticket_ + 1;
  if (job.submitted == 0) job.first_ticket.store(ticket, std::memory_order_release);
  last_ticket_ = ticket;  // also of a slice that fails: part of it may raise the word
  if (Result<void> done = submit_slice(job, ticket); !done) {
    fail_job(job, std::move(done.error()));
    forget(ticket);
  }
  if (job.submitted_all()) {
    job.close(std::nullopt);
    ++first_open_;
  }
}

// An exception must not pass: the job is in the lane, and part of the slice may be on its way.
Result<void> CudaLane::submit_slice(CudaJob& job, std::uint64_t ticket) try {
  const std::size_t index = job.submitted;
  const std::uint64_t bytes = job.parts.slices[index].bytes();
  on_their_way_.push_back({ticket, bytes});
  bytes_on_their_way_ += bytes;
  if (Result<void> done = runner_->run(job, index, ticket); !done) return done;
  ++job.submitted;
  ++counts_.slices;
  counts_.bytes += bytes;
  for (std::size_t range = 0; range < job.parts.range_ends.size(); ++range) {
    if (job.parts.range_ends[range] != job.submitted) continue;
    Result<void> recorded = runner_->record(job.parts.range_events[range].get());
    if (!recorded) return recorded;
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::kNoMemory, "no memory left");  // as short as to need none
}

void CudaLane::forget(std::uint64_t ticket) {
  if (on_their_way_.empty() || on_their_way_.back().ticket != ticket) return;
  bytes_on_their_way_ -= on_their_way_.back().bytes;
  on_their_way_.pop_back();
}

void CudaLane::fail_job(CudaJob& job, Error error) {
  // Part of a slice may be on its way without anything that would tell its end.
  runner_->drain();
  job.close(std::move(error));
}

void CudaLane::look_for_trouble() {
  const std::uint64_t now = now_ns();
  if (on_their_way_.empty() || now - moved_ns_ < kTroubleNs || now - checked_ns_ < kTroubleNs) {
    return;
  }
  checked_ns_ = now;
  const cudaError_t error = runner_->state();
  if (error == cudaSuccess) return;
  const Error failure = cuda_failure(error, "GPU copy").error();
  for (const std::shared_ptr<CudaJob>& job : jobs_) job->abandon(failure);
  first_open_ = jobs_.size();
  on_their_way_.clear();
  bytes_on_their_way_ = 0;
}

void CudaLane::cancel(CudaJob& job) {
  const std::lock_guard lock(mutex_);
  if (job.submitted_all()) return;
  job.close(Error{ErrorCode::kClosed, "copy job: cancelled"});
  cancelled_ = true;
}

Result<void> CudaLane::submit_range(CudaJob& job, std::size_t range) {
  const DeviceScope scope(device_);
  const std::lock_guard lock(mutex_);
  const std::size_t needed = job.parts.range_ends[range];
  while (job.submitted < needed && !job.closed() && first_open_ < jobs_.size()) submit_next();
  if (job.submitted >= needed) return {};
  return fail(ErrorCode::kWrongState, "copy job: it ended before the range was submitted");
}

}  // namespace orlop::gpu
