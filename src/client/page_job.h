// SPDX-License-Identifier: Apache-2.0
// One backup or restore under way: the copy, and what follows when it is over (commit or abort;
// compare and report).
//
// Life: start() -> the copy is done -> finish(), once, by whoever comes first: the thread that
// waits for it, or the cache's completion thread. Until then it owns its plans' registered copies
// and keeps the cache's state alive; after it nothing of the engine is referred to any more.
// Thread: any. What follows the copy is done without mutex_: it may sum gigabytes, and who only
// looks or cancels must not wait for that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/ids.h"
#include "client/client_core.h"
#include "client/page_batch.h"
#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"
#include "orlop/client.h"
#include "orlop/error.h"

namespace orlop::detail {

class PageCacheState;

class PageJob : public std::enable_shared_from_this<PageJob> {
 public:
  explicit PageJob(std::shared_ptr<PageCacheState> cache);
  virtual ~PageJob() = default;
  PageJob(const PageJob&) = delete;
  PageJob& operator=(const PageJob&) = delete;

  bool forked() const { return core_->forked(); }
  MonoNs deadline_in(Milliseconds timeout) const { return core_->deadline_in(timeout); }
  // Takes over the batch's registered copies. On an error nothing has begun and the batch is as it
  // was. request.values: may be empty, the job is then over at once.
  Result<void> start(client::PageBatch& batch, const gpu::CopyRequest& request,
                     gpu::PageCopier& copier);
  bool finished() const { return finished_.load(std::memory_order_acquire); }  // never waits
  // Carries out what follows the copy, unless somebody does or did. Requires: the copy is done.
  void finish();
  // False after the deadline, or when the binding asks (WaitInterruption).
  bool wait_finished(MonoNs deadline);
  void cancel();
  std::size_t ranges() const { return range_count_; }
  bool range_done(std::size_t range);
  Result<void> stream_wait(std::size_t range, void* stream);
  Result<void> result();  // requires: finished

 protected:
  using Lock = std::unique_lock<std::mutex>;
  // Once. sums: S of each value of the batch, in order; not to be used on an error.
  virtual void follow_up(const Result<void>& copied, std::span<const std::uint64_t> sums) = 0;
  PageCacheState& cache() { return *cache_; }
  ClientCore& core() { return *core_; }

  client::PageBatch batch_;

 private:
  std::shared_ptr<gpu::CopyJob> copy();  // null: finished
  void end(const Result<void>& copied, std::span<const std::uint64_t> sums,
           std::vector<bool> ranges_done);
  bool wait_end(MonoNs deadline);  // of finish() on another thread

  const std::shared_ptr<ClientCore> core_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool finishing_ = false;
  std::shared_ptr<PageCacheState> cache_;  // until finished
  std::shared_ptr<gpu::CopyJob> copy_;     // from start to finished
  std::size_t range_count_ = 1;
  std::vector<bool> ranges_done_;  // when finished
  Result<void> result_;
  std::atomic<bool> finished_{false};
};

class BackupState final : public PageJob {
 public:
  using PageJob::PageJob;
  bool answered();  // finished, and every commit is answered; never waits
  Result<std::optional<std::vector<std::vector<Outcome>>>> wait(MonoNs deadline);

 private:
  void follow_up(const Result<void>& copied, std::span<const std::uint64_t> sums) override;
  void commit(client::PageBatch::Put& item, std::span<const std::uint64_t> sums);

  std::vector<std::shared_ptr<FutureState>> futures_;  // one an item, unless the copy failed
  Result<void> committed_;
};

class RestoreState final : public PageJob {
 public:
  // rest: strips of the value that the job does not copy and the CPU sums.
  RestoreState(std::shared_ptr<PageCacheState> cache, std::vector<gpu::CompiledLayout::Strip> rest);
  Result<std::optional<std::vector<std::uint32_t>>> wait(MonoNs deadline);

 private:
  void follow_up(const Result<void>& copied, std::span<const std::uint64_t> sums) override;
  std::uint64_t compare(const client::PageBatch::Read& item, std::span<const std::uint64_t> sums);
  bool matches(const ReadState& plan, std::size_t page, std::size_t rank, std::uint64_t sum) const;

  const std::vector<gpu::CompiledLayout::Strip> rest_;
  std::vector<std::uint32_t> valid_;
};

}  // namespace orlop::detail
