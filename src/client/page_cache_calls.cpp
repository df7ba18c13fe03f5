// SPDX-License-Identifier: Apache-2.0
// The public face of PageCache and its jobs: null and fork checks. The work is in PageCacheState.
#include "client/access.h"
#include "client/page_cache.h"
#include "orlop/gpu.h"

namespace orlop {

using detail::ClientAccess;
using detail::PageCacheState;

namespace {

std::unexpected<Error> moved_from() {
  return fail(ErrorCode::kWrongState, "page cache: was moved from; use the one it went to");
}

// Of a job object: made by nobody, or by the parent of this process.
template <class State>
Result<void> job_usable(const std::shared_ptr<State>& state) {
  if (state == nullptr)
    return fail(ErrorCode::kWrongState, "job: is empty; take the one that backup or restore gives");
  if (state->forked()) {
    return fail(ErrorCode::kForkedChild,
                "this job was begun by the parent of this process; wait for it there");
  }
  return {};
}

}  // namespace

// ---- Backup ------------------------------------------------------------------------------------

bool Backup::done() const {
  return job_usable(state_) && state_->answered();
}
Result<std::optional<std::vector<std::vector<Outcome>>>> Backup::wait(Milliseconds timeout) {
  if (auto usable = job_usable(state_); !usable) return std::unexpected(usable.error());
  return state_->wait(state_->deadline_in(timeout));
}
Result<void> Backup::stream_wait(void* stream) {
  if (auto usable = job_usable(state_); !usable) return usable;
  return state_->stream_wait(0, stream);
}
void Backup::cancel() {
  if (job_usable(state_)) state_->cancel();
}

// ---- Restore -----------------------------------------------------------------------------------

bool Restore::done() const {
  return job_usable(state_) && state_->finished();
}
std::size_t Restore::ranges() const {
  return job_usable(state_) ? state_->ranges() : 0;
}
bool Restore::range_done(std::size_t range) const {
  return job_usable(state_) && state_->range_done(range);
}
Result<void> Restore::stream_wait(std::size_t range, void* stream) {
  if (auto usable = job_usable(state_); !usable) return usable;
  return state_->stream_wait(range, stream);
}
Result<std::optional<std::vector<std::uint32_t>>> Restore::wait(Milliseconds timeout) {
  if (auto usable = job_usable(state_); !usable) return std::unexpected(usable.error());
  return state_->wait(state_->deadline_in(timeout));
}
void Restore::cancel() {
  if (job_usable(state_)) state_->cancel();
}

// ---- PageCache ---------------------------------------------------------------------------------

namespace {

void let_go(std::shared_ptr<PageCacheState>& state) {
  if (state == nullptr) return;
  if (state->forked()) return ClientAccess::leave(state);
  state->shut_down();
  state = nullptr;
}

}  // namespace

Result<PageCache> PageCache::open(Client& client, const KvLayout& layout, std::uint32_t value_len,
                                  const PageCacheOptions& options) {
  auto state = PageCacheState::open(client, layout, value_len, options);
  if (!state) return std::unexpected(state.error());
  PageCache made;
  made.state_ = std::move(*state);
  return made;
}

PageCache::PageCache(PageCache&&) noexcept = default;
PageCache& PageCache::operator=(PageCache&& other) noexcept {
  if (this == &other) return *this;
  let_go(state_);
  state_ = std::move(other.state_);
  return *this;
}
PageCache::~PageCache() {
  let_go(state_);
}

Result<Backup> PageCache::backup(std::span<const BackupItem> items, const BackupOptions& options) {
  if (state_ == nullptr) return moved_from();
  return state_->backup(items, options);
}
Result<Restore> PageCache::restore(std::span<const RestoreItem> items,
                                   const RestoreOptions& options) {
  if (state_ == nullptr) return moved_from();
  return state_->restore(items, options);
}
std::string PageCache::describe() const {
  return state_ == nullptr ? std::string() : state_->describe();
}
std::string PageCache::engine_for(std::size_t values, bool restore) const {
  return state_ == nullptr ? std::string() : state_->engine_for(values, restore);
}
PageCacheStats PageCache::stats() const {
  return state_ == nullptr || state_->forked() ? PageCacheStats{} : state_->stats();
}

}  // namespace orlop
