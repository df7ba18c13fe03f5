// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_job.h"

#include <immintrin.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "gpu/copy_request.h"
#include "gpu/cuda_call.h"
#include "gpu/device_scope.h"

namespace orlop::gpu {
namespace {

// Short batches end while a waiter would fall asleep and wake up again.
constexpr auto kSpin = std::chrono::microseconds(200);

}  // namespace

CudaJob::CudaJob(CudaJobParts all, std::weak_ptr<JobLane> of,
                 std::shared_ptr<const LaneProgress> progress)
    : parts(std::move(all)), lane(std::move(of)), progress_(std::move(progress)) {}

CudaJob::~CudaJob() {
  for (Event& event : parts.range_events) parts.events->give_back(std::move(event));
  if (parts.start != nullptr) parts.events->give_back(std::move(parts.start));
}

bool CudaJob::done() const {
  if (abandoned_.load(std::memory_order_acquire)) return true;
  const std::uint64_t end = end_ticket_.load(std::memory_order_acquire);
  return end != kOpen && progress_->ticket() >= end;
}

bool CudaJob::wait(std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::clamp(timeout, std::chrono::milliseconds(0), kLongestWait);
  const auto spin_end = std::min(start + kSpin, end);
  do {
    if (done()) return true;
    for (int i = 0; i < 16; ++i) _mm_pause();
  } while (std::chrono::steady_clock::now() < spin_end);
  std::unique_lock lock(mutex_);
  return announced_change_.wait_until(lock, end, [&] { return announced_; }) || done();
}

void CudaJob::cancel() {
  if (done()) return;
  if (const std::shared_ptr<JobLane> at = lane.lock()) at->cancel(*this);
}

bool CudaJob::range_done(std::size_t range) const {
  CHECK(range < ranges(), "range of the job");
  if (abandoned_.load(std::memory_order_acquire)) return false;
  const std::size_t slices = parts.range_ends[range];
  if (slices == 0) return true;
  const std::uint64_t first = first_ticket.load(std::memory_order_acquire);
  if (first == 0 || progress_->ticket() < first + slices - 1) return false;
  // Tickets of a job that ended early went to the next one.
  const std::uint64_t end = end_ticket_.load(std::memory_order_acquire);
  return end == kOpen || first + slices - 1 <= end;
}

Result<void> CudaJob::stream_wait(std::size_t range, void* stream) {
  if (range >= ranges()) return no_such_range(range, ranges());
  if (done()) {
    if (!range_done(range)) {
      return fail(ErrorCode::kWrongState,
                  "copy job: the range was never copied: " + error()->message);
    }
    return {};
  }
  if (range_done(range)) return {};
  const std::shared_ptr<JobLane> at = lane.lock();
  CHECK(at != nullptr, "a copier outlives its jobs");
  if (const Result<void> there = at->submit_range(*this, range); !there) return there;
  const DeviceScope scope(parts.device);
  ORLOP_CUDA(cudaStreamWaitEvent, static_cast<cudaStream_t>(stream),
             parts.range_events[range].get(), 0);
  return {};
}

Result<void> CudaJob::result() const {
  CHECK(done(), "result() after done()");
  if (error()) return std::unexpected(*error());
  return {};
}

std::span<const std::uint64_t> CudaJob::raw_sums() const {
  CHECK(done(), "raw_sums() after done()");
  collect();
  return raw_sums_;
}

void CudaJob::collect() const {
  const std::lock_guard lock(mutex_);
  if (collected_) return;
  collected_ = true;
  raw_sums_.assign(parts.values.size(), 0);
  if (error()) return;
  for (std::size_t i = 0; i < parts.slices.size(); ++i) {
    const Slice& slice = parts.slices[i];
    const std::uint64_t* const sums = parts.sums + parts.sums_at[i];
    for (std::uint32_t v = 0; v < slice.count; ++v) {
      const std::uint64_t* const of_value = sums + std::size_t{v} * parts.sums_per_value;
      for (std::uint32_t k = 0; k < parts.sums_per_value; ++k) {
        raw_sums_[slice.first + v] += of_value[k];
      }
    }
  }
}

void CudaJob::close(std::optional<Error> error) {
  if (closed()) return;
  error_ = std::move(error);
  const std::uint64_t first = first_ticket.load(std::memory_order_relaxed);
  end_ticket_.store(submitted == 0 ? 0 : first + submitted - 1, std::memory_order_release);
}

void CudaJob::abandon(Error error) {
  if (done()) return;
  abandoned_error_ = std::move(error);
  abandoned_.store(true, std::memory_order_release);
}

void CudaJob::announce() {
  collect();
  parts.lists = {};
  {
    const std::lock_guard lock(mutex_);
    announced_ = true;
  }
  announced_change_.notify_all();
  if (parts.on_done) std::exchange(parts.on_done, {})(*this);
}

}  // namespace orlop::gpu
