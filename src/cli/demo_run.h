// SPDX-License-Identifier: Apache-2.0
// The run behind `orlop demo`: a private node, worker processes, a conversation workload, and the
// death of the server in the middle. What it found comes back as numbers; demo_command.cpp shows
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "cli/progress.h"
#include "cli/worker_link.h"
#include "orlop/error.h"

namespace orlop::cli {

struct DemoOptions {
  std::uint64_t requests = 4'000;
  std::uint32_t workers = 2;
  std::uint64_t capacity = 256ull * 1024 * 1024;
  std::uint64_t seed = 1;
  bool keep = false;  // leave the node's folder (log, last status) behind
};

// 16 tokens at 4 KiB each: what a model of some billion parameters keeps for a token.
inline constexpr std::uint32_t kDemoValueLen = 64 * 1024;
// Below this a single conversation would fill the pin budget of its worker.
inline constexpr std::uint64_t kDemoMinCapacity = 64ull * 1024 * 1024;
inline constexpr std::uint32_t kDemoMaxWorkers = 32;
inline constexpr std::uint64_t kDemoMaxRequests = 10'000'000;
// The whole run, node start and stop included.
inline constexpr MonoNs kDemoLimit = 120 * kNsPerSecond;

struct DemoFindings {
  TallyBody tally;  // of all workers
  std::uint64_t evicted_pages = 0;
  // The kill.
  MonoNs restart_ns = 0;      // SIGKILL -> first new page stored
  MonoNs longest_gap_ns = 0;  // between two local hits of one worker meanwhile
  std::uint64_t outage_hits = 0;
  std::uint64_t recorded = 0;        // pages committed before it
  std::uint64_t evicted_before = 0;  // of those, evicted before it
  std::uint64_t read_back = 0;
  std::uint64_t evicted_after = 0;  // not read back, explained by the next server's evictions
  std::uint64_t lost = 0;           // not explained
  MonoNs total_ns = 0;
  std::string kept_folder;              // with DemoOptions::keep
  std::vector<std::string> complaints;  // what is wrong, one line each; empty: all is well

  std::uint64_t wrong_bytes() const { return tally.mismatches() * kDemoValueLen; }
};

// Nothing that it started is left when it returns. Errors: kDeadline, kClosed (interrupted),
// kRefused (node did not start), kSystem (a worker failed; its words).
Result<DemoFindings> run_demo(const DemoOptions& options, Progress& progress);

}  // namespace orlop::cli
