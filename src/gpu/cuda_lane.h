// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: the jobs of one direction, one after the other.
//
// Submits slices as long as less than the window is on its way; the rest waits in the lane, so that
// a cancel has something to cancel and queues of the driver never fill (a full one would block).
// Thread: any; service() one.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/cuda_job.h"
#include "gpu/cuda_slices.h"

namespace orlop::gpu {

// The device as a lane uses it (SliceRunner, cuda_slices.h); a test has one of its own.
class SliceQueue {
 public:
  virtual ~SliceQueue() = default;
  virtual Result<void> run(const CudaJob& job, std::size_t slice, std::uint64_t ticket) = 0;
  virtual Result<void> record(cudaEvent_t event) = 0;
  virtual cudaError_t state() const = 0;
  virtual void drain() = 0;
  virtual const std::shared_ptr<const LaneProgress>& progress() const = 0;
  virtual std::uint64_t copy_calls() const = 0;
};
std::unique_ptr<SliceQueue> queue_of(std::unique_ptr<SliceRunner> runner);

class CudaLane final : public JobLane {
 public:
  struct Counts {
    std::uint64_t slices = 0, copy_calls = 0, bytes = 0;
    double submit_seconds = 0;
  };

  // callers_bytes, window_bytes: CudaCopierOptions.
  CudaLane(std::unique_ptr<SliceQueue> runner, int device, std::uint64_t callers_bytes,
           std::uint64_t window_bytes)
      : runner_(std::move(runner)),
        device_(device),
        callers_bytes_(std::min(callers_bytes, window_bytes)),
        window_bytes_(window_bytes) {}

  // Queues the job and submits what is the caller's. Throws (no memory) before anything is queued.
  void add(std::shared_ptr<CudaJob> job);
  // Submits what the window takes now; moves jobs that are done to `done`, oldest first, each once;
  // one that was cancelled in the queue does not wait for those before it. Nanoseconds until it is
  // worth looking again.
  std::uint64_t service(std::vector<std::shared_ptr<CudaJob>>& done);
  bool idle() const;                   // no jobs
  std::uint64_t bytes_on_their_way();  // submitted and not yet copied

  void cancel(CudaJob& job) override;
  Result<void> submit_range(CudaJob& job, std::size_t range) override;

  const std::shared_ptr<const LaneProgress>& progress() const { return runner_->progress(); }
  Counts counts() const;

 private:
  struct OnItsWay {
    std::uint64_t ticket, bytes;
  };

  void retire();                                 // slices that are complete
  void submit_within(std::uint64_t most_bytes);  // on their way
  void submit_next();                            // one slice of the first job that has one left
  Result<void> submit_slice(CudaJob& job, std::uint64_t ticket);
  void forget(std::uint64_t ticket);  // of a slice that failed: nothing will tell its end
  void fail_job(CudaJob& job, Error error);
  void look_for_trouble();

  void take_done(std::vector<std::shared_ptr<CudaJob>>& done);

  const std::unique_ptr<SliceQueue> runner_;
  const int device_;
  const std::uint64_t callers_bytes_, window_bytes_;

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<CudaJob>> jobs_;  // not yet seen done
  std::size_t first_open_ = 0;                 // of jobs_: those before are submitted or closed
  bool cancelled_ = false;                     // since the last look: one behind others may be done
  std::deque<OnItsWay> on_their_way_;
  std::uint64_t bytes_on_their_way_ = 0;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t moved_ns_ = 0;    // when something was last submitted or completed
  std::uint64_t checked_ns_ = 0;  // when the streams were last asked for errors
  Counts counts_;
};

}  // namespace orlop::gpu
