// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: one job of the host engine.
//
// run() is called once, on a thread of the copier; the rest from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"

namespace orlop::gpu {

class HostJob final : public CopyJob {
 public:
  // request: checked; strips: of its ranges.
  HostJob(const CopyRequest& request, std::vector<CompiledLayout::Strip> strips,
          OnCopyDone on_done);

  void run();

  bool done() const override { return done_.load(std::memory_order_acquire); }
  bool wait(std::chrono::milliseconds timeout) override;
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  std::size_t ranges() const override { return strips_.size(); }
  bool range_done(std::size_t range) const override;
  Result<void> stream_wait(std::size_t range, void* stream) override;
  Result<void> result() const override;
  std::span<const std::uint64_t> raw_sums() const override;

 private:
  bool copy();  // false: cancelled
  bool copy_range(CompiledLayout::Strip strip, bool around_cache);
  void finish(Result<void> result);

  const CompiledLayout& layout_;
  const CopyDirection direction_;
  const std::vector<std::byte*> values_;
  std::vector<std::vector<std::int64_t>> pages_;  // one list a pool
  const std::vector<CompiledLayout::Strip> strips_;
  OnCopyDone on_done_;

  std::vector<std::uint64_t> sums_;  // of run() until done_
  Result<void> result_;              // the same
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};            // after sums_ and result_
  std::atomic<std::size_t> ranges_done_{0};  // after the ranges' bytes
  std::mutex mutex_;
  std::condition_variable changed_;  // done_, ranges_done_
};

}  // namespace orlop::gpu
