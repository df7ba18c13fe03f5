// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: one job of the host engine.
//
// run() is called once, on a thread of the copier, help() on others of it; the rest from any
// thread. Parts (one value in one range) are taken in order by whoever is free; run() ends when all
// of them are.
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
  // Takes part until nothing is left to be taken; nothing if that is so already.
  void help();
  std::uint64_t bytes() const { return bytes_; }

  bool done() const override { return done_.load(std::memory_order_acquire); }
  bool wait(std::chrono::milliseconds timeout) override;
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }
  std::size_t ranges() const override { return strips_.size(); }
  bool range_done(std::size_t range) const override;
  Result<void> stream_wait(std::size_t range, void* stream) override;
  Result<void> result() const override;
  std::span<const std::uint64_t> raw_sums() const override;

 private:
  void take_parts();
  void copy_part(std::size_t range, std::size_t value);
  void part_is_done(std::size_t range);
  void wait_for_helpers();
  void finish(Result<void> result);

  const CompiledLayout& layout_;
  const CopyDirection direction_;
  const std::vector<std::byte*> values_;
  std::vector<std::vector<std::int64_t>> pages_;  // one list a pool
  const std::vector<CompiledLayout::Strip> strips_;
  const std::uint64_t bytes_;
  const bool around_cache_;
  OnCopyDone on_done_;

  std::atomic<std::size_t> next_{0};            // part: range * values + value
  std::vector<std::atomic<std::size_t>> left_;  // parts of each range that are not done
  std::vector<std::uint64_t> sums_;             // atomic_ref until done_
  Result<void> result_;                         // of run() until done_
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};            // after sums_ and result_
  std::atomic<std::size_t> ranges_done_{0};  // after the ranges' bytes
  std::mutex mutex_;
  std::condition_variable changed_;  // done_, ranges_done_, helpers_
  unsigned helpers_ = 0;
  bool closed_ = false;  // to helpers
};

}  // namespace orlop::gpu
