// SPDX-License-Identifier: Apache-2.0
// One worker process of `orlop demo`: serves its part of the workload, and in the middle goes
// through the death of the server.
//
//   parent                     worker
//   kGo                   ->   serves its requests up to the middle
//                         <-   kAtBarrier           no put under way
//   kMark                 ->   reads which of the pages it stored are still there
//                         <-   kMarked              and reads them without pause from now on
//   (kills the server)
//   kKilled               ->   puts a new page until one is stored by the next server
//                         <-   kServedAgain
//   kReadBackNow          ->   reads every marked page
//                         <-   kReadBack
//   kResume               ->   serves the rest
//                         <-   kDone
//
// No put happens between mark and kill, so nothing is evicted there either, and what is marked must
// be read back: fewer only by what the next server says it evicted.
#pragma once

#include <cstdint>
#include <string>

#include "orlop/error.h"

namespace orlop::cli {

struct DemoWorkerConfig {
  std::string socket;
  std::uint32_t index = 0;
  std::uint32_t workers = 2;
  std::uint64_t requests = 0;
  std::uint64_t seed = 1;
  std::uint32_t users = 64;
  std::uint32_t value_len = 0;
};
// As one argument of a command line.
std::string to_text(const DemoWorkerConfig& config);
Result<DemoWorkerConfig> parse_demo_worker_config(const std::string& text);

// The hidden subcommand `demo-worker CONFIG`. Returns the exit status.
int demo_worker_main(const std::string& config_text);

}  // namespace orlop::cli
