// SPDX-License-Identifier: Apache-2.0
// The run behind `orlop replay`: a request trace against a real node. Per request: restore the
// longest prefix and check every byte, then put all missing pages, one page a group, with the last
// hit as their parent. replay_command.cpp shows what it found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cli/progress.h"
#include "cli/worker_link.h"
#include "orlop/error.h"

namespace orlop::cli {

struct ReplayOptions {
  std::string path;
  std::uint32_t workers = 1;              // processes that share the trace round robin
  std::uint64_t capacity_pages = 10'000;  // resident; free slots come on top
  std::uint32_t value_bytes = 4096;
  std::string policy = "lru";
  std::optional<std::size_t> limit;  // only the first so many requests
};

inline constexpr std::uint32_t kReplayMaxWorkers = 32;
// A worker that gets on says so ten times a second; silence for so long is a failure.
inline constexpr MonoNs kReplayStallLimit = 60 * kNsPerSecond;

struct ReplayFindings {
  TallyBody tally;  // of all workers
  std::uint64_t evicted_pages = 0;
  std::uint64_t touches_lost = 0;
  MonoNs replay_ns = 0;                 // start of the workers' work to its end
  std::vector<std::string> complaints;  // empty: all is well
};

// Nothing that it started is left when it returns. Errors: kInvalidArgument (trace, sizes),
// kClosed (interrupted), kRefused (node did not start), kDeadline (stalled), kSystem.
Result<ReplayFindings> run_replay(const ReplayOptions& options, Progress& progress);

}  // namespace orlop::cli
