// SPDX-License-Identifier: Apache-2.0
// One worker process of `orlop replay`: serves every n-th request of a trace.
//   kReady ->, <- kGo, kProgress ->, kDone ->
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "orlop/error.h"

namespace orlop::cli {

struct ReplayWorkerConfig {
  std::string socket;
  std::string path;
  std::uint32_t index = 0;
  std::uint32_t workers = 1;
  std::uint32_t value_len = 0;
  std::optional<std::uint64_t> limit;
};
// As one argument of a command line.
std::string to_text(const ReplayWorkerConfig& config);
Result<ReplayWorkerConfig> parse_replay_worker_config(const std::string& text);

// The hidden subcommand `replay-worker CONFIG`. Returns the exit status.
int replay_worker_main(const std::string& config_text);

}  // namespace orlop::cli
