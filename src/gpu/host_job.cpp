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

std::uint64_t bytes_of(std::span<const CompiledLayout::Strip> strips, std::size_t values) {
  std::uint64_t bytes = 0;
  for (const CompiledLayout::Strip& strip : strips) bytes += strip.end - strip.begin;
  return bytes * values;
}

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
      bytes_(bytes_of(strips_, values_.size())),
      around_cache_(streams(direction_, bytes_, process_copy_engine())),
      on_done_(std::move(on_done)),
      left_(strips_.size()),
      sums_(values_.size()) {
  for (const std::span<const std::int64_t> list : request.pages) {
    pages_.emplace_back(list.begin(), list.end());
  }
  for (std::atomic<std::size_t>& left : left_)
    left.store(values_.size(), std::memory_order_relaxed);
  if (values_.empty()) ranges_done_ = strips_.size();
}

void HostJob::run() {
  take_parts();
  wait_for_helpers();
  const bool complete = ranges_done_.load(std::memory_order_acquire) == strips_.size();
  finish(complete ? Result<void>() : fail(ErrorCode::kClosed, "the copy was cancelled"));
}

void HostJob::help() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    ++helpers_;
  }
  take_parts();
  const std::lock_guard lock(mutex_);
  --helpers_;
  changed_.notify_all();
}

void HostJob::wait_for_helpers() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.wait(lock, [&] { return helpers_ == 0; });
}

void HostJob::take_parts() {
  const std::size_t parts = strips_.size() * values_.size();
  while (!cancelled_.load(std::memory_order_relaxed)) {
    const std::size_t part = next_.fetch_add(1, std::memory_order_relaxed);
    if (part >= parts) return;
    const std::size_t range = part / values_.size();
    copy_part(range, part % values_.size());
    part_is_done(range);
  }
}

void HostJob::copy_part(std::size_t range, std::size_t value) {
  const HostMove move{layout_, direction_, process_copy_engine(), around_cache_};
  std::vector<const std::int64_t*> numbers(pages_.size());
  for (std::size_t pool = 0; pool < pages_.size(); ++pool) {
    numbers[pool] = pages_[pool].data() + value * layout_.pools()[pool].pages_per_value;
  }
  const std::uint64_t sum = move_strip(move, strips_[range], values_[value], numbers);
  if (around_cache_) process_copy_engine().end_rows();
  // Another thread may have the same value in the next range.
  std::atomic_ref(sums_[value]).fetch_add(sum, std::memory_order_relaxed);
}

// Ranges are told in their order, also when a later one is complete first.
void HostJob::part_is_done(std::size_t range) {
  if (left_[range].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  std::size_t told = ranges_done_.load(std::memory_order_relaxed);
  while (told < strips_.size() && left_[told].load(std::memory_order_acquire) == 0) ++told;
  ranges_done_.store(told, std::memory_order_release);  // pairs with range_done()
  changed_.notify_all();
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
