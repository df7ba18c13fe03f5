// SPDX-License-Identifier: Apache-2.0
// ClientCore: the statistics, for the user and, once a second, for the node.
#include <algorithm>

#include "client/client_core.h"
#include "client/limits.h"
#include "platform/clock.h"

namespace orlop::detail {

using client::ThreadState;

ClientStats ClientCore::collect(client::ReadCounters& reads) {
  std::vector<std::shared_ptr<ThreadState>> threads;
  ClientStats stats;
  {
    const Lock lock(mutex_);
    stats = counters_;
    reads = past_reads_;
    threads = threads_;
    stats.open_put_plans = open_put_count_;
    if (attachment_ != nullptr) {
      stats.aborted_late += attachment_->guarded->session.aborted_late();
      stats.pinned_bytes = attachment_->pinned_bytes.load(std::memory_order_relaxed);
      stats.pin_cap_bytes =
          attachment_->area.header().pin_cap_bytes.load(std::memory_order_relaxed);
    }
  }
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    reads.add(thread->counters);
    stats.open_handles += thread->handles;
    stats.open_read_plans += thread->plans;
  }
  stats.gets = reads.gets;
  stats.keys_asked = reads.keys_asked;
  stats.keys_hit = reads.keys_hit;
  stats.bytes_read = reads.bytes_read;
  stats.mismatches = reads.mismatches;
  for (std::size_t i = 0; i < reads.misses.size(); ++i) stats.misses[i] = reads.misses[i];
  return stats;
}

ClientStats ClientCore::stats() {
  client::ReadCounters reads;
  return collect(reads);
}

// Stamps what it has not seen yet, so that get_start needs no clock: reads are listed newest first,
// so what follows a stamped one is stamped. Returns the stamp of the oldest plan, 0 without one.
MonoNs ClientCore::oldest_read_plan(MonoNs now) {
  std::vector<std::shared_ptr<ThreadState>> threads;
  {
    const Lock lock(mutex_);
    threads = threads_;
  }
  MonoNs oldest = kNever;
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    for (ReadState* state = thread->open; state != nullptr && state->seen == 0; state = state->next)
      state->seen = now;
    const ReadState* last = thread->oldest;
    while (last != nullptr && !last->transferred) last = last->previous;
    if (last != nullptr) oldest = std::min(oldest, last->seen);
  }
  return oldest == kNever ? 0 : oldest;
}

// One thread at a time: the housekeeping thread, and close() when that has ended.
void ClientCore::publish_report(MonoNs now) {
  const MonoNs oldest = oldest_read_plan(now);
  client::ReadCounters reads;
  const ClientStats stats = collect(reads);
  const Lock lock(mutex_);
  if (attachment_ == nullptr) return;
  segment::ReportCounters all;
  all.gets = reads.gets;
  all.keys_asked = reads.keys_asked;
  all.keys_hit = reads.keys_hit;
  all.bytes_read = reads.bytes_read;
  all.mismatches = reads.mismatches;
  all.misses = reads.misses;
  all.get = reads.latency;
  all.puts = stats.puts;
  all.keys_put = stats.keys_put;
  all.keys_stored = stats.keys_stored;
  all.bytes_written = stats.bytes_written;
  std::copy(std::begin(stats.outcomes), std::end(stats.outcomes), all.outcomes.begin());
  all.put = put_latency_;
  reported_ = all;
  segment::store_report(attachment_->channel.report(), segment::grown(all, report_base_),
                        {.attaches = stats.attaches,
                         .open_read_plans = stats.open_read_plans,
                         .open_handles = stats.open_handles,
                         .oldest_read_plan = oldest,
                         .published = now});
}

}  // namespace orlop::detail
