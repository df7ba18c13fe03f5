// SPDX-License-Identifier: Apache-2.0
#include "node/keeper_memory.h"

#include "base/log.h"
#include "base/units.h"
#include "platform/clock.h"
#include "platform/poll_wait.h"

namespace orlop::node {
namespace {

// How often a node that waits for memory looks again.
constexpr MonoNs kMemoryRetry = kNsPerSecond;
// Lines about a long first touch.
constexpr MonoNs kProgressEvery = kNsPerSecond;

void log_segment(const runtime::SegmentFiles& files) {
  LOG_INFO("segment_created", {"segment_id", files.id}, {"slabs", files.geometry.slab_count},
           {"slab_bytes", format_bytes(files.geometry.slab_bytes)},
           {"touched", format_bytes(files.touched_bytes)}, {"huge", format_bytes(files.huge_bytes)},
           {"budget", files.budget_text});
}

}  // namespace

Result<runtime::SegmentFiles> make_segment(const NodeOptions& options, const MakingMemory& making) {
  const auto possible = runtime::fits_at_all(options.memory);
  if (!possible) return std::unexpected<Error>(possible.error());
  MonoNs told = 0;
  const TouchProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    const MonoNs now = monotonic_ns();
    if (done == total || now - told >= kProgressEvery) {
      told = now;
      LOG_INFO("memory_touched", {"done", format_bytes(done)}, {"of", format_bytes(total)});
      making.busy("touching memory: " + format_bytes(done) + " of " + format_bytes(total));
    }
    return !(wait_readable(making.signal_fd, 0).value_or(false) && making.stop_asked());
  };
  const MonoNs give_up = monotonic_ns() + options.memory_wait;
  for (;;) {
    auto files = runtime::create_segment(options.memory, progress);
    if (files) log_segment(*files);
    if (files || files.error().code != ErrorCode::kNoMemory || monotonic_ns() >= give_up) {
      return files;
    }
    LOG_WARN("waiting_for_memory", {"reason", files.error().message});
    making.busy("waiting for memory: " + files.error().message);
    if (wait_readable(making.signal_fd, monotonic_ns() + kMemoryRetry).value_or(false) &&
        making.stop_asked()) {
      return fail(ErrorCode::kClosed, "stopped while waiting for memory");
    }
  }
}

}  // namespace orlop::node
