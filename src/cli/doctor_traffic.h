// SPDX-License-Identifier: Apache-2.0
// Explains in words why a node's clients hit little or nothing, with the numbers behind it. Pure: a
// /status.json in, checks out. Every cause has its own check name:
//
//   attached         nobody is attached
//   refused_attach   attaches were refused: versions, user, limits, descriptors
//   asked            clients never ask, or never write
//   hit_rate         the figure itself
//   namespace        readers and writers use different namespaces: the fields that differ
//   never_written    no writer, or writers make other keys than readers
//   evicted, removed, flushed     the pages were there and left
//   draining, no_space, over_quota, not_admitted    puts that were refused
//   ledger_full, pin_budget, not_attached, group_incomplete, deadline   reads cut short
//   mismatch         wrong bytes
//   pins             plans that stay open
//
// A cause that did not occur has no check. Counters are those since the server's start. What an
// older node does not tell is unknown and explains nothing; its hit rate is said to be unknown.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "cli/doctor_check.h"

namespace orlop::cli {

// Below this share of keys hit, what misses came from is a warning; above, misses are usual (the
// first request for anything misses).
inline constexpr double kLowHitRate = 0.3;
// A miss cause is told from this share of the misses on.
inline constexpr double kToldShare = 0.05;
// A plan that is open so long belongs to a request that hangs, or to a process that is stopped.
inline constexpr double kOldPlanSeconds = 60;

std::vector<Check> diagnose(const nlohmann::ordered_json& status);

// Parts of it, in their own files.
// Puts and reads that the node or the client refused, wrong bytes, plans that stay open.
std::vector<Check> diagnose_refusals(const nlohmann::ordered_json& status);
// Misses by what became of the page. low: the hit rate is below kLowHitRate.
std::vector<Check> diagnose_misses(const nlohmann::ordered_json& status, bool low);

}  // namespace orlop::cli
