// SPDX-License-Identifier: Apache-2.0
// Many seeds, several at a time, each in a process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isolated_run.h"

namespace orlop::simulation {

struct BatchPlan {
  std::vector<std::uint64_t> seeds{};  // run first, in this order
  std::uint64_t first = 1, count = 0;  // then these
  unsigned jobs = 1;                   // processes at once
  // With it `count` does not matter: seeds from `first` on until then.
  std::optional<std::chrono::steady_clock::time_point> until{};
};

struct Batch {
  std::uint64_t seeds = 0;        // that were run
  std::vector<Finding> failures;  // ascending by seed
  std::map<std::string, std::uint64_t> reached;
  // Names of must_reach.h that no seed reached; empty if too few were run to say so.
  std::vector<std::string_view> missing() const;
};

// Stops after this many failures: they will be one bug.
inline constexpr std::size_t kMostFailures = 8;

Batch run_batch(const BatchPlan& plan);

}  // namespace orlop::simulation
