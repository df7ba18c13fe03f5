// SPDX-License-Identifier: Apache-2.0
#include "client/page_cache.h"

#include <algorithm>
#include <utility>

#include "client/access.h"
#include "client/limits.h"
#include "client/page_ranges.h"
#include "client/readable_memory.h"
#include "gpu/copier_thread.h"
#include "platform/clock.h"

namespace orlop::client {

void CompletionQueue::push(std::weak_ptr<detail::PageJob> job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  filled_.notify_one();
}

void CompletionQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  filled_.notify_one();
}

bool CompletionQueue::next(std::weak_ptr<detail::PageJob>* job) {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
  if (stopped_) return false;
  *job = std::move(jobs_.front());
  jobs_.pop_front();
  return true;
}

}  // namespace orlop::client

namespace orlop::detail {

using client::Attachment;
using client::PageBatch;
using client::UsableMemory;

namespace {

gpu::EngineWish wish_of(const PageCacheOptions& options) {
  gpu::EngineWish wish{.kind = {},
                       .device = options.device,
                       .staging_bytes = options.staging_bytes,
                       .backup_burst_bytes = options.backup_burst_bytes};
  switch (options.engine) {
    case CopyEngineChoice::kAuto:
      break;
    case CopyEngineChoice::kHost:
      wish.kind = gpu::EngineKind::kHost;
      break;
    case CopyEngineChoice::kStaged:
      wish.kind = gpu::EngineKind::kStaged;
      break;
    case CopyEngineChoice::kDirect:
      wish.kind = gpu::EngineKind::kDirect;
      break;
    case CopyEngineChoice::kPieces:
      wish.kind = gpu::EngineKind::kPieces;
      break;
  }
  return wish;
}

// The host's copies would end the process on an address of a device.
Result<void> check_readable(const gpu::CompiledLayout& layout) {
  for (const gpu::CompiledPart& part : layout.parts()) {
    const std::uint64_t last =
        gpu::row_in_cache(part, layout.pool_pages(part.pool) - 1, part.heads - 1, part.tokens - 1);
    for (const std::uint64_t address : {part.base, last + part.row_bytes - 1}) {
      if (client::readable_byte(address)) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "layout: address " + std::to_string(address) + " of layer " +
                      std::to_string(part.layer) +
                      " is not memory of this process that the CPU can read; a GPU's memory needs "
                      "a build with CUDA and a working driver (`orlop doctor`)");
    }
  }
  return {};
}

std::unexpected<Error> closed_client() {
  return fail(ErrorCode::kClosed, "page cache: its client was closed");
}

}  // namespace

PageCacheState::PageCacheState(std::shared_ptr<ClientCore> core, gpu::CompiledLayout layout,
                               std::string layout_text, std::unique_ptr<gpu::PageEngines> engines,
                               const PageCacheOptions& options)
    : core_(std::move(core)),
      layout_(std::move(layout)),
      layout_text_(std::move(layout_text)),
      engines_(std::move(engines)),
      progress_(options.progress) {}

Result<std::shared_ptr<PageCacheState>> PageCacheState::open(Client& client, const KvLayout& layout,
                                                             std::uint32_t value_len,
                                                             const PageCacheOptions& options) {
  if (auto usable = ClientAccess::usable(client); !usable) return std::unexpected(usable.error());
  const std::shared_ptr<ClientCore> core = ClientAccess::core(client).shared_from_this();
  if (core->closed().load()) return closed_client();  // else the answer would be "not attached"
  auto compiled = gpu::CompiledLayout::compile(layout, value_len);
  if (!compiled) return std::unexpected(compiled.error());
  const std::shared_ptr<Attachment> attachment = core->attachment();
  if (attachment == nullptr) {
    return fail(ErrorCode::kNoNode, "page cache: the client is not attached (" +
                                        core->last_attach_error().message +
                                        "); wait with wait_ready()");
  }
  auto engines = gpu::make_page_engines(*compiled, wish_of(options));
  if (!engines) return std::unexpected(engines.error());
  if ((*engines)->engine_for(gpu::CopyDirection::kBackup, 1) == gpu::EngineKind::kHost) {
    if (auto readable = check_readable(*compiled); !readable)
      return std::unexpected(readable.error());
  }
  auto state = std::make_shared<PageCacheState>(core, std::move(*compiled), gpu::describe(layout),
                                                std::move(*engines), options);
  // First: what is registered from here on is let go of when the node's memory goes.
  if (!core->add_memory_user(state)) return closed_client();
  if (auto used = state->use(attachment); !used) return std::unexpected(used.error());
  return state;
}

std::string PageCacheState::describe() const {
  return engines_->describe() + "\n" + layout_text_;
}

std::string PageCacheState::engine_for(std::size_t values, bool restore) const {
  const auto direction = restore ? gpu::CopyDirection::kRestore : gpu::CopyDirection::kBackup;
  return std::string(gpu::to_string(engines_->engine_for(direction, values)));
}

Result<void> PageCacheState::usable() const {
  if (forked()) {
    return fail(ErrorCode::kForkedChild,
                "page cache: was made by the parent of this process; open a new Client here");
  }
  const Lock lock(mutex_);
  if (closed_) return closed_client();
  return {};
}

Result<Backup> PageCacheState::backup(std::span<const BackupItem> items,
                                      const BackupOptions& options) {
  if (auto checked = usable(); !checked) return std::unexpected(checked.error());
  auto batch = PageBatch::of(*core_, layout_, items);
  if (!batch) return std::unexpected(batch.error());
  auto job = std::make_shared<BackupState>(shared_from_this());
  const gpu::CopyRequest request{.direction = gpu::CopyDirection::kBackup,
                                 .layout = &layout_,
                                 .values = {},
                                 .pages = {},
                                 .ranges = {},
                                 .stream = options.stream};
  if (auto begun = submit(job, *batch, request); !begun) return std::unexpected(begun.error());
  for (const BackupItem& item : items) ClientAccess::state(*item.plan) = nullptr;
  Backup backup;
  backup.state_ = std::move(job);
  return backup;
}

Result<Restore> PageCacheState::restore(std::span<const RestoreItem> items,
                                        const RestoreOptions& options) {
  if (auto checked = usable(); !checked) return std::unexpected(checked.error());
  auto rest = client::strips_left_out(layout_, options.ranges);
  if (!rest) return std::unexpected(rest.error());
  auto batch = PageBatch::of(*core_, layout_, items);
  if (!batch) return std::unexpected(batch.error());
  auto job = std::make_shared<RestoreState>(shared_from_this(), std::move(*rest));
  const gpu::CopyRequest request{.direction = gpu::CopyDirection::kRestore,
                                 .layout = &layout_,
                                 .values = {},
                                 .pages = {},
                                 .ranges = options.ranges,
                                 .stream = options.stream};
  if (auto begun = submit(job, *batch, request); !begun) return std::unexpected(begun.error());
  Restore restore;
  restore.state_ = std::move(job);
  return restore;
}

Result<void> PageCacheState::submit(const std::shared_ptr<PageJob>& job, PageBatch& batch,
                                    gpu::CopyRequest request) {
  for (const std::shared_ptr<Attachment>& attachment : batch.attachments()) {
    auto memory = use(attachment);
    if (!memory) return std::unexpected(memory.error());
    batch.memories.push_back(std::move(*memory));
  }
  const std::vector<std::byte*> values = std::move(batch.values);
  const std::vector<std::vector<std::int64_t>> pages = std::move(batch.pages);
  const std::vector<std::span<const std::int64_t>> lists(pages.begin(), pages.end());
  request.values = values;
  request.pages = lists;
  client::RegisteredCopies copies(batch, *core_);
  if (auto added = copies.add_all(); !added) return added;
  return job->start(batch, request, engines_->copier());
}

std::shared_ptr<UsableMemory> PageCacheState::known_memory(const Attachment& attachment) {
  const Lock lock(mutex_);
  for (const std::shared_ptr<UsableMemory>& known : memories_)
    if (known->attachment.get() == &attachment) return known;
  return nullptr;
}

Result<std::shared_ptr<UsableMemory>> PageCacheState::use(
    const std::shared_ptr<Attachment>& attachment) {
  if (auto known = known_memory(*attachment)) return known;
  const std::lock_guard one_at_a_time(registering_);
  if (auto known = known_memory(*attachment)) return known;
  auto registration = engines_->use_memory(attachment->value_memory.span(), progress_);
  if (!registration) return std::unexpected(registration.error());
  auto made = std::make_shared<UsableMemory>(attachment, std::move(*registration));
  // Kept for the next call only where somebody will still tell us to let go of it: not what a plan
  // holds of a node that is gone, nor after close().
  const Lock lock(mutex_);
  if (!closed_ && core_->attachment() == attachment) memories_.push_back(made);
  return made;
}

void PageCacheState::memory_gone() {
  std::vector<std::shared_ptr<UsableMemory>> gone;  // unregistered after the lock
  const Lock lock(mutex_);
  const std::shared_ptr<Attachment> current = core_->attachment();
  const auto first = std::partition(memories_.begin(), memories_.end(), [&](const auto& memory) {
    return memory->attachment == current;
  });
  gone.assign(first, memories_.end());
  memories_.erase(first, memories_.end());
}

Result<void> PageCacheState::enter(const std::shared_ptr<PageJob>& job) {
  const Lock lock(mutex_);
  if (closed_) return closed_client();
  if (running_.size() >= client::kMaxPageJobs) {
    return fail(ErrorCode::kLimit, "page cache: " + std::to_string(client::kMaxPageJobs) +
                                       " jobs run at once; wait for some");
  }
  if (!thread_.joinable()) {
    auto started = gpu::start_copier_thread("orlop-copied", [this] { run(); });
    if (!started) return std::unexpected(started.error());
    thread_ = std::move(*started);
  }
  running_.emplace(job.get(), job);
  return {};
}

void PageCacheState::count_begun(gpu::CopyDirection direction) {
  const Lock lock(mutex_);
  ++(direction == gpu::CopyDirection::kBackup ? stats_.backups : stats_.restores);
}

void PageCacheState::over(const PageJob& job) {
  const Lock lock(mutex_);
  running_.erase(&job);
  idle_.notify_all();
}

void PageCacheState::count(const PageCacheStats& ended) {
  const Lock lock(mutex_);
  stats_.pages_backed_up += ended.pages_backed_up;
  stats_.bytes_backed_up += ended.bytes_backed_up;
  stats_.pages_restored += ended.pages_restored;
  stats_.bytes_restored += ended.bytes_restored;
  stats_.mismatches += ended.mismatches;
  stats_.cancelled += ended.cancelled;
  stats_.failed += ended.failed;
}

PageCacheStats PageCacheState::stats() {
  const Lock lock(mutex_);
  PageCacheStats stats = stats_;
  stats.running = running_.size();
  for (const auto& memory : memories_)
    stats.registered_bytes += memory->attachment->value_memory.size();
  return stats;
}

std::vector<std::shared_ptr<PageJob>> PageCacheState::running() {
  std::vector<std::shared_ptr<PageJob>> jobs;
  const Lock lock(mutex_);
  for (const auto& [address, job] : running_) jobs.push_back(job);
  return jobs;
}

// Holds no last reference of the cache: shut_down() joins this thread before the cache lets go.
void PageCacheState::run() {
  std::weak_ptr<PageJob> next;
  while (completions_->next(&next))
    if (const std::shared_ptr<PageJob> job = next.lock()) job->finish();
}

void PageCacheState::client_closes(MonoNs deadline) {
  // Before the word that it is closed: who gets that answer finds the jobs of before cancelled.
  for (const std::shared_ptr<PageJob>& job : running()) job->cancel();
  {
    const Lock lock(mutex_);
    closed_ = true;
  }
  const std::vector<std::shared_ptr<PageJob>> jobs = running();
  for (const std::shared_ptr<PageJob>& job : jobs) job->cancel();
  for (const std::shared_ptr<PageJob>& job : jobs) static_cast<void>(job->wait_finished(deadline));
  std::vector<std::shared_ptr<UsableMemory>> gone;  // unregistered after the lock
  const Lock lock(mutex_);
  gone.swap(memories_);  // jobs that still run keep theirs
}

void PageCacheState::shut_down() {
  {
    const Lock lock(mutex_);
    closed_ = true;
  }
  for (const std::shared_ptr<PageJob>& job : running())
    while (!job->wait_finished(monotonic_ns() + kNsPerSecond)) continue;
  Lock lock(mutex_);
  idle_.wait(lock, [this] { return running_.empty(); });
  lock.unlock();
  completions_->stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace orlop::detail
