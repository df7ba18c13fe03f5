// SPDX-License-Identifier: Apache-2.0
// Parts that the --json outputs of several subcommands share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/report.h"
#include "cli/worker_link.h"

namespace orlop::cli {

// {"p50": us, "p95": us, "p99": us}
inline nlohmann::ordered_json latency_json(const Histogram& nanoseconds) {
  const LatencyUs us = latency_us(nanoseconds);
  return {{"p50", us.p50}, {"p95", us.p95}, {"p99", us.p99}};
}

// Outcomes of puts that occurred, by name.
inline nlohmann::ordered_json outcomes_json(const TallyBody& tally) {
  auto json = nlohmann::ordered_json::object();
  for (int i = 0; i < kOutcomeCount; ++i) {
    if (tally.outcomes[i] == 0) continue;
    json[std::string(to_string(static_cast<Outcome>(i)))] = tally.outcomes[i];
  }
  return json;
}

}  // namespace orlop::cli
