// SPDX-License-Identifier: Apache-2.0
#include "client/page_job.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/check.h"
#include "client/interruption.h"
#include "client/page_cache.h"
#include "copy/checksum.h"
#include "platform/clock.h"

namespace orlop::detail {

PageJob::PageJob(std::shared_ptr<PageCacheState> cache)
    : core_(cache->core()), cache_(std::move(cache)) {}

namespace {

// A place among the running jobs while the start may still fail, by an error or an exception.
class Place {
 public:
  Place(PageCacheState& cache, const PageJob& job) : cache_(cache), job_(job) {}
  ~Place() {
    if (!begun_) cache_.over(job_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  void begun() { begun_ = true; }

 private:
  PageCacheState& cache_;
  const PageJob& job_;
  bool begun_ = false;
};

}  // namespace

Result<void> PageJob::start(client::PageBatch& batch, const gpu::CopyRequest& request,
                            gpu::PageCopier& copier) {
  range_count_ = std::max<std::size_t>(request.ranges.size(), 1);
  // Entered and submitted under the lock: who finds this job among the running ones and locks it
  // finds it started.
  Lock lock(mutex_);
  const std::shared_ptr<PageCacheState> cache = cache_;  // end() lets go of it
  if (auto entered = cache->enter(shared_from_this()); !entered) return entered;
  Place place(*cache, *this);
  if (request.values.empty()) {
    batch_ = std::move(batch);
    lock.unlock();
    end({}, {}, std::vector<bool>(range_count_, true));
    place.begun();
    cache->count_begun(request.direction);
    return {};
  }
  auto on_done = [queue = cache->completions(), self = weak_from_this()](
                     gpu::CopyJob& /*job*/) mutable { queue->push(std::move(self)); };
  auto submitted = copier.submit(request, std::move(on_done));
  if (!submitted) return std::unexpected(submitted.error());
  place.begun();
  cache->count_begun(request.direction);
  copy_ = std::move(*submitted);
  batch_ = std::move(batch);
  return {};
}

std::shared_ptr<gpu::CopyJob> PageJob::copy() {
  if (finished()) return nullptr;
  const Lock lock(mutex_);
  return copy_;
}

void PageJob::finish() {
  std::shared_ptr<gpu::CopyJob> copy;
  {
    const Lock lock(mutex_);
    if (copy_ == nullptr || std::exchange(finishing_, true)) return;
    copy = copy_;
  }
  CHECK(copy->done(), "a job is finished after its copy");
  std::vector<bool> ranges_done;
  for (std::size_t range = 0; range < range_count_; ++range)
    ranges_done.push_back(copy->range_done(range));
  end(copy->result(), copy->raw_sums(), std::move(ranges_done));
}

void PageJob::end(const Result<void>& copied, std::span<const std::uint64_t> sums,
                  std::vector<bool> ranges_done) {
  follow_up(copied, sums);
  batch_ = {};
  std::shared_ptr<PageCacheState> cache;  // both let go of after the lock
  std::shared_ptr<gpu::CopyJob> copy;
  const Lock lock(mutex_);
  result_ = copied;
  ranges_done_ = std::move(ranges_done);
  copy = std::move(copy_);
  cache = std::move(cache_);
  // Before anybody can see that it is finished: then the counters are right, too.
  cache->over(*this);
  finished_.store(true, std::memory_order_release);
  ended_.notify_all();
}

bool PageJob::wait_end(MonoNs deadline) {
  Lock lock(mutex_);
  return ended_.wait_for(lock, std::chrono::nanoseconds(time_left(deadline, monotonic_ns())),
                         [this] { return finished(); });
}

bool PageJob::wait_finished(MonoNs deadline) {
  while (const std::shared_ptr<gpu::CopyJob> running = copy()) {
    const MonoNs slice = client::WaitInterruption::slice(deadline);
    const MonoNs left = time_left(slice, monotonic_ns());
    const auto rounded_up = static_cast<std::int64_t>((left + kNsPerMs - 1) / kNsPerMs);
    if (running->wait(Milliseconds(rounded_up))) {
      finish();
      if (wait_end(slice)) return true;
    }
    if (monotonic_ns() >= deadline) return false;
    Lock lock(mutex_);
    if (client::WaitInterruption::asked_to_stop(lock)) return false;
  }
  return true;
}

void PageJob::cancel() {
  if (const std::shared_ptr<gpu::CopyJob> running = copy()) running->cancel();
}

bool PageJob::range_done(std::size_t range) {
  if (range >= range_count_) return false;
  if (const std::shared_ptr<gpu::CopyJob> running = copy()) return running->range_done(range);
  const Lock lock(mutex_);
  return ranges_done_[range];
}

Result<void> PageJob::stream_wait(std::size_t range, void* stream) {
  if (range >= range_count_) {
    return fail(ErrorCode::kInvalidArgument, "range: is " + std::to_string(range) +
                                                 ", the job has " + std::to_string(range_count_));
  }
  std::shared_ptr<PageCacheState> cache;  // its engine must not go under the call
  std::shared_ptr<gpu::CopyJob> running;
  {
    const Lock lock(mutex_);
    cache = cache_;
    running = copy_;
  }
  if (running != nullptr) return running->stream_wait(range, stream);
  if (range_done(range)) return {};  // nothing is left to wait for
  const Result<void> ended = result();
  return fail(ErrorCode::kWrongState, "range " + std::to_string(range) +
                                          " was not copied before the job ended" +
                                          (ended ? std::string() : ": " + ended.error().message));
}

Result<void> PageJob::result() {
  const Lock lock(mutex_);
  return result_;
}

// ---- backup ------------------------------------------------------------------------------------

void BackupState::follow_up(const Result<void>& copied, std::span<const std::uint64_t> sums) {
  for (client::PageBatch::Put& item : batch_.puts) {
    if (copied) {
      commit(item, sums);
      continue;
    }
    // After a cancel the device is done with the memory; after an error nobody knows.
    const bool known = copied.error().code == ErrorCode::kClosed;
    if (item.copy != 0) static_cast<void>(core().copy_done(item.copy, known, nullptr));
    core().put_abort(item.plan);
  }
  PageCacheStats ended;
  if (copied) {
    ended.pages_backed_up = sums.size();
    ended.bytes_backed_up = sums.size() * cache().layout().value_len();
  } else {
    ++(copied.error().code == ErrorCode::kClosed ? ended.cancelled : ended.failed);
  }
  cache().count(ended);
}

void BackupState::commit(client::PageBatch::Put& item, std::span<const std::uint64_t> sums) {
  PutPlanState& plan = *item.plan;
  std::size_t next = item.first;
  for (std::size_t i = 0; i < plan.grants.size(); ++i) {
    if (plan.grants[i].slot == 0) continue;
    plan.checksums[i] = finalise(sums[next++], plan.value_len,
                                 {.key = plan.keys[i], .namespace_digest = plan.digest});
    plan.summed[i] = true;
  }
  if (item.copy != 0) static_cast<void>(core().copy_done(item.copy, true, nullptr));
  auto future = core().put_commit(item.plan);
  if (future) {
    futures_.push_back(std::move(*future));
    return;
  }
  core().put_abort(item.plan);
  if (committed_) committed_ = std::unexpected(future.error());
}

bool BackupState::answered() {
  if (!finished()) return false;
  // The list does not change after the end.
  return std::ranges::all_of(futures_, [this](const std::shared_ptr<FutureState>& future) {
    return core().future_ready(*future);
  });
}

Result<std::optional<std::vector<std::vector<Outcome>>>> BackupState::wait(MonoNs deadline) {
  if (!wait_finished(deadline)) return std::nullopt;
  if (auto copied = result(); !copied) return std::unexpected(copied.error());
  if (!committed_) return std::unexpected(committed_.error());
  std::vector<std::vector<Outcome>> outcomes;
  for (const std::shared_ptr<FutureState>& future : futures_) {
    if (!core().wait_future(*future, deadline)) return std::nullopt;
    outcomes.push_back(future->outcomes);
  }
  return outcomes;
}

// ---- restore -----------------------------------------------------------------------------------

RestoreState::RestoreState(std::shared_ptr<PageCacheState> cache,
                           std::vector<gpu::CompiledLayout::Strip> rest)
    : PageJob(std::move(cache)), rest_(std::move(rest)) {}

void RestoreState::follow_up(const Result<void>& copied, std::span<const std::uint64_t> sums) {
  PageCacheStats ended;
  if (copied) {
    for (const client::PageBatch::Read& item : batch_.reads) {
      ended.mismatches += compare(item, sums);
      ended.pages_restored += item.pages;
    }
    ended.bytes_restored = ended.pages_restored * cache().layout().value_len();
  } else {
    ++(copied.error().code == ErrorCode::kClosed ? ended.cancelled : ended.failed);
  }
  // After a cancel the device is done with the memory; after an error nobody knows.
  const bool known = copied || copied.error().code == ErrorCode::kClosed;
  for (const client::PageBatch::Read& item : batch_.reads) {
    valid_.push_back(item.pages);
    if (item.plan == nullptr) continue;
    valid_.back() = std::min(item.pages, item.plan->valid.load(std::memory_order_relaxed));
    // The last use of the plan: the caller may have released it long ago.
    static_cast<void>(core().copy_done(item.copy, known, nullptr));
  }
  cache().count(ended);
}

// Returns the number of pages that are wrong.
std::uint64_t RestoreState::compare(const client::PageBatch::Read& item,
                                    std::span<const std::uint64_t> sums) {
  std::uint64_t wrong = 0;
  for (std::uint32_t page = 0; page < item.pages; ++page) {
    if (matches(*item.plan, page, item.rank, sums[item.first + page])) continue;
    ++wrong;
    core().found_mismatch(*item.plan, page, item.rank);
  }
  return wrong;
}

bool RestoreState::matches(const ReadState& plan, std::size_t page, std::size_t rank,
                           std::uint64_t sum) const {
  const ReadState::Rank& pins = plan.ranks[rank];
  const segment::PinnedSlot& pin = pins.pins[page];
  const std::span<const std::byte> value = plan.attachment->value(pin.slot, pins.value_len);
  for (const gpu::CompiledLayout::Strip& strip : rest_)
    sum += raw_sum(value.subspan(strip.begin, strip.end - strip.begin), strip.begin / 4);
  return finalise(sum, pins.value_len, plan.identity(page, rank)) == pin.checksum;
}

Result<std::optional<std::vector<std::uint32_t>>> RestoreState::wait(MonoNs deadline) {
  if (!wait_finished(deadline)) return std::nullopt;
  if (auto copied = result(); !copied) return std::unexpected(copied.error());
  return valid_;
}

}  // namespace orlop::detail
