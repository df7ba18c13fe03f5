// SPDX-License-Identifier: Apache-2.0
// Parts that the --json outputs of several subcommands share.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/report.h"
#include "cli/worker_link.h"

namespace orlop::cli {

// Whatever came from outside (a path, a name) may hold bytes that are no UTF-8: they become U+FFFD,
// where dump() alone would throw. indent: -1 is one line.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// A path is bytes, not a text: as a list of numbers it arrives as it was.
inline nlohmann::ordered_json bytes_json(const std::string& bytes) {
  return std::vector<unsigned char>(bytes.begin(), bytes.end());
}
// Throws what nlohmann throws for another type.
inline std::string bytes_of_json(const nlohmann::json& json) {
  const auto bytes = json.get<std::vector<unsigned char>>();
  return {bytes.begin(), bytes.end()};
}

// On stdout, with a newline.
inline void print_json(const nlohmann::ordered_json& json, int indent = 2) {
  std::printf("%s\n", json_text(json, indent).c_str());
}

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
