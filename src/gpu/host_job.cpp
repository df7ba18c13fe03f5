// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "copy/copy.h"
#include "gpu/copy_request.h"
#include "gpu/host_move.h"

namespace orlop::gpu {
namespace {

bool streams(CopyDirection direction, std::uint64_t bytes, const CopyEngine& engine) {
  return bytes >= (direction == CopyDirection::kBackup ? engine.stream_in_bytes()
                                                       : engine.stream_out_bytes());
}

}  // namespace

HostJob::HostJob(const CopyRequest& request, std::vector<CompiledLayout::Strip> strips,
                 OnCopyDone on_done)
    : layout_(*request.layout),
      direction_(request.direction),
      values_(request.values.begin(), request.values.end()),
      strips_(std::move(strips)),
      on_done_(std::move(on_done)),
      sums_(values_.size()) {
  for (const std::span<const std::int64_t> list : request.pages) {
    pages_.emplace_back(list.begin(), list.end());
  }
}

void HostJob::run() {
  finish(copy() ? Result<void>() : fail(ErrorCode::kClosed, "the copy was cancelled"));
}

bool HostJob::copy() {
  std::uint64_t bytes = 0;
  for (const CompiledLayout::Strip& strip : strips_) bytes += strip.end - strip.begin;
  const bool around_cache = streams(direction_, bytes * values_.size(), process_copy_engine());
  for (const CompiledLayout::Strip& strip : strips_) {
    const bool complete = copy_range(strip, around_cache);
    process_copy_engine().end_rows();
    if (!complete) return false;
    {
      const std::lock_guard lock(mutex_);
      ranges_done_.fetch_add(1, std::memory_order_release);  // pairs with range_done()
    }
    changed_.notify_all();
  }
  return true;
}

bool HostJob::copy_range(CompiledLayout::Strip strip, bool around_cache) {
  const HostMove move{layout_, direction_, process_copy_engine(), around_cache};
  std::vector<const std::int64_t*> numbers(pages_.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (cancelled_.load(std::memory_order_relaxed)) return false;
    for (std::size_t pool = 0; pool < pages_.size(); ++pool) {
      numbers[pool] = pages_[pool].data() + i * layout_.pools()[pool].pages_per_value;
    }
    sums_[i] += move_strip(move, strip, values_[i], numbers);
  }
  return true;
}

void HostJob::finish(Result<void> result) {
  result_ = std::move(result);
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);  // pairs with done()
  }
  changed_.notify_all();
  // Taken out: the callback may own this job.
  if (const OnCopyDone on_done = std::exchange(on_done_, nullptr)) on_done(*this);
}

bool HostJob::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(timeout, kLongestWait), [&] { return done(); });
}

bool HostJob::range_done(std::size_t range) const {
  CHECK(range < strips_.size());
  return ranges_done_.load(std::memory_order_acquire) > range;
}

Result<void> HostJob::stream_wait(std::size_t range, void* /*stream*/) {
  if (range >= ranges()) return no_such_range(range, ranges());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return range_done(range) || done(); });
  if (range_done(range)) return {};
  return fail(ErrorCode::kWrongState,
              "range " + std::to_string(range) + " was not copied: the copy was cancelled before");
}

Result<void> HostJob::result() const {
  CHECK(done(), "a job has no result before it is done");
  return result_;
}

std::span<const std::uint64_t> HostJob::raw_sums() const {
  CHECK(done(), "a job has no sums before it is done");
  return sums_;
}

}  // namespace orlop::gpu
