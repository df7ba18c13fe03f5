// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: one job of the CUDA engines.
//
// A job is cut into slices. The lane of its direction numbers them as it submits them (tickets, one
// after the other across jobs); the device stores the ticket of the last slice that is complete
// into pinned memory, so that "is it done" is a few loads and no call.
// Thread: the CopyJob interface any; the rest the lane, under its mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/copy_slices.h"
#include "gpu/cuda_brief.h"
#include "gpu/cuda_geometry.h"
#include "gpu/cuda_resources.h"
#include "gpu/host_registration.h"
#include "gpu/page_copier.h"

namespace orlop::gpu {

// Where the device tells how far a lane is: one word for all kinds of slices, and one of each block
// for brief ones (cuda_brief.h). Slices end in the order of their tickets, so what the last block
// or the other word says holds, whichever is more. Requires: kBytes of memory, zeroed.
class LaneProgress {
 public:
  static constexpr std::size_t kBytes = 128;
  explicit LaneProgress(PinnedMemory memory) : memory_(std::move(memory)) {}
  std::uint64_t* word() const { return reinterpret_cast<std::uint64_t*>(memory_.get()); }
  std::uint64_t* block_words() const { return word() + kFirstOfBlocks; }
  std::uint64_t ticket() const {
    std::uint64_t of_blocks = load(kFirstOfBlocks);
    for (std::size_t i = 1; i < kBriefBlocks; ++i) {
      of_blocks = std::min(of_blocks, load(kFirstOfBlocks + i));
    }
    return std::max(load(0), of_blocks);
  }

 private:
  static constexpr std::size_t kFirstOfBlocks = 8;  // a cache line of their own
  static_assert((kFirstOfBlocks + kBriefBlocks) * sizeof(std::uint64_t) <= kBytes);
  std::uint64_t load(std::size_t i) const {
    return std::atomic_ref<std::uint64_t>(word()[i]).load(std::memory_order_acquire);
  }
  PinnedMemory memory_;
};

// What a job is made of; fixed before it is submitted.
struct CudaJobParts {
  CopyDirection direction{};
  EngineKind engine{};
  int device = 0;
  const CompiledLayout* layout = nullptr;
  std::shared_ptr<const DeviceGeometry> geometry;
  std::shared_ptr<const RegisteredChunks> chunks;
  std::vector<std::byte*> values;
  std::vector<Slice> slices;
  std::vector<std::size_t> sums_at;     // of each slice, in `sums`
  std::vector<std::size_t> range_ends;  // slices up to the end of each range
  PinnedPool::Block lists;
  std::uint32_t* numbers = nullptr;  // value after value, in `lists`
  std::byte** addresses = nullptr;   // of the values; direct only
  std::uint64_t* sums = nullptr;     // what the kernels store
  bool brief = false;                // one slice, for the kernel of cuda_brief.h
  std::uint32_t sums_per_value = 1;  // neighbours in `sums`; their sum is the value's
  Event start;                       // of the caller's stream; may be null
  std::vector<Event> range_events;
  std::shared_ptr<EventPool> events;
  OnCopyDone on_done;
};

class CudaJob;
// The lane as its jobs see it.
class JobLane {
 public:
  virtual ~JobLane() = default;
  virtual void cancel(CudaJob& job) = 0;
  // Submits what is needed until the range has been; kWrongState: it never will be.
  virtual Result<void> submit_range(CudaJob& job, std::size_t range) = 0;
};

class CudaJob final : public CopyJob {
 public:
  CudaJob(CudaJobParts parts, std::weak_ptr<JobLane> lane,
          std::shared_ptr<const LaneProgress> progress);
  ~CudaJob() override;

  bool done() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void cancel() override;
  std::size_t ranges() const override { return parts.range_ends.size(); }
  bool range_done(std::size_t range) const override;
  Result<void> stream_wait(std::size_t range, void* stream) override;
  Result<void> result() const override;
  std::span<const std::uint64_t> raw_sums() const override;

  // Under the lane's mutex.
  bool submitted_all() const { return submitted == parts.slices.size(); }
  bool closed() const { return end_ticket_.load(std::memory_order_relaxed) != kOpen; }
  // No more slices will follow; done when those submitted are. error: of the whole job.
  void close(std::optional<Error> error);
  // The device will not touch anything any more, whatever the progress says.
  void abandon(Error error);

  // Copier's thread, once, when done(): wakes waiters, then on_done.
  void announce();

  CudaJobParts parts;
  const std::weak_ptr<JobLane> lane;
  std::size_t submitted = 0;  // slices; under the lane's mutex; fixed after close()
  // Of slice 0; written once, before the first slice is submitted. 0: none was.
  std::atomic<std::uint64_t> first_ticket{0};

 private:
  static constexpr std::uint64_t kOpen = ~std::uint64_t{0};
  void collect() const;  // sums and result, once; requires done()

  const std::shared_ptr<const LaneProgress> progress_;
  std::atomic<std::uint64_t> end_ticket_{kOpen};  // of the last slice, once no more follow
  std::atomic<bool> abandoned_{false};
  std::optional<Error> error_;            // written before end_ticket_
  std::optional<Error> abandoned_error_;  // written before abandoned_
  const std::optional<Error>& error() const {
    return abandoned_.load(std::memory_order_acquire) ? abandoned_error_ : error_;
  }

  mutable std::mutex mutex_;  // what follows
  std::condition_variable announced_change_;
  bool announced_ = false;
  mutable bool collected_ = false;
  mutable std::vector<std::uint64_t> raw_sums_;
};

}  // namespace orlop::gpu
