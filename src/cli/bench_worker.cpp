// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_worker.h"

#include <nlohmann/json.hpp>

#include "cli/json_parts.h"

namespace orlop::cli {

std::string to_text(const BenchWorkerConfig& config) {
  return nlohmann::ordered_json{
      {"socket", bytes_json(config.socket)}, {"index", config.index},
      {"phase_ms", config.phase_ms},         {"window_pages", config.window_pages},
      {"preload", config.preload},           {"put_batch", config.put_batch},
      {"put_pause_us", config.put_pause_us}}
      .dump();
}

Result<BenchWorkerConfig> parse_bench_worker_config(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    return BenchWorkerConfig{.socket = bytes_of_json(json.at("socket")),
                             .index = json.at("index"),
                             .phase_ms = json.at("phase_ms"),
                             .window_pages = json.at("window_pages"),
                             .preload = json.at("preload"),
                             .put_batch = json.at("put_batch"),
                             .put_pause_us = json.at("put_pause_us")};
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalidArgument, std::string("bench worker: ") + error.what());
  }
}

}  // namespace orlop::cli
