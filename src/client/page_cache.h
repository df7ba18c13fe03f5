// SPDX-License-Identifier: Apache-2.0
// What is behind a PageCache: the compiled layout, the engines, the value memory they may use, the
// jobs that run.
//
// Threads: callers, any number; the copier's own, which only push into the completion queue; one
// completion thread, made with the first job, that ends jobs nobody waits for.
// Locks, in this order: PageJob::mutex_, registering_, mutex_, those of ClientCore. None is held
// while a device works, and only registering_ while memory is registered, which takes seconds and
// calls the caller's progress.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/client_core.h"
#include "client/memory_user.h"
#include "client/page_job.h"
#include "client/usable_memory.h"
#include "gpu/compiled_layout.h"
#include "gpu/engine_choice.h"
#include "orlop/gpu.h"

namespace orlop::client {

// Of jobs whose copy is over. Outlives the cache in the hands of a copier that pushes late.
class CompletionQueue {
 public:
  void push(std::weak_ptr<detail::PageJob> job);
  void stop();
  bool next(std::weak_ptr<detail::PageJob>* job);  // false: stopped

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::weak_ptr<detail::PageJob>> jobs_;
  bool stopped_ = false;
};

}  // namespace orlop::client

namespace orlop::detail {

class PageCacheState final : public client::MemoryUser,
                             public std::enable_shared_from_this<PageCacheState> {
 public:
  static Result<std::shared_ptr<PageCacheState>> open(Client& client, const KvLayout& layout,
                                                      std::uint32_t value_len,
                                                      const PageCacheOptions& options);
  PageCacheState(std::shared_ptr<ClientCore> core, gpu::CompiledLayout layout,
                 std::string layout_text, std::unique_ptr<gpu::PageEngines> engines,
                 const PageCacheOptions& options);
  ~PageCacheState() override = default;  // after shut_down()

  Result<Backup> backup(std::span<const BackupItem> items, const BackupOptions& options);
  Result<Restore> restore(std::span<const RestoreItem> items, const RestoreOptions& options);
  std::string describe() const;
  std::string engine_for(std::size_t values, bool restore) const;
  PageCacheStats stats();
  void shut_down();  // waits for the jobs; no new ones

  bool forked() const { return core_->forked(); }
  void client_closes(MonoNs deadline) override;
  void memory_gone() override;

  // ---- for its jobs
  const std::shared_ptr<ClientCore>& core() const { return core_; }
  const gpu::CompiledLayout& layout() const { return layout_; }
  std::shared_ptr<client::CompletionQueue> completions() const { return completions_; }
  // A place among the running jobs, and the thread that ends them. kClosed, kLimit, kSystem.
  Result<void> enter(const std::shared_ptr<PageJob>& job);
  void count_begun(gpu::CopyDirection direction);
  void over(const PageJob& job);
  void count(const PageCacheStats& ended);  // added; of a job that ends

 private:
  using Lock = std::unique_lock<std::mutex>;
  Result<void> usable() const;
  std::shared_ptr<client::UsableMemory> known_memory(const client::Attachment& attachment);
  Result<std::shared_ptr<client::UsableMemory>> use(
      const std::shared_ptr<client::Attachment>& attachment);
  Result<void> submit(const std::shared_ptr<PageJob>& job, client::PageBatch& batch,
                      gpu::CopyRequest request);
  std::vector<std::shared_ptr<PageJob>> running();
  void run();  // the completion thread

  const std::shared_ptr<ClientCore> core_;
  const gpu::CompiledLayout layout_;
  const std::string layout_text_;
  const std::unique_ptr<gpu::PageEngines> engines_;
  const std::function<void(std::uint64_t, std::uint64_t)> progress_;
  const std::shared_ptr<client::CompletionQueue> completions_ =
      std::make_shared<client::CompletionQueue>();

  std::mutex registering_;  // one registers at a time

  mutable std::mutex mutex_;  // what follows
  std::vector<std::shared_ptr<client::UsableMemory>> memories_;
  std::condition_variable idle_;
  std::unordered_map<const PageJob*, std::shared_ptr<PageJob>> running_;
  std::thread thread_;
  bool closed_ = false;
  PageCacheStats stats_;
};

}  // namespace orlop::detail
