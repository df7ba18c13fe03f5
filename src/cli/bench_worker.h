// SPDX-License-Identifier: Apache-2.0
// The worker processes of `orlop bench`: the hidden subcommands `bench-throughput-worker CONFIG`
// and `bench-kill-worker CONFIG`.
//
// Throughput, for each phase:        Killed server:
//   parent          worker             parent            worker
//             <-    kReady                         <-    kReady      its pages stored
//   kBenchPut ->    batches of puts    kGo         ->    reads and puts from now on
//             <-    kBenchCount        kBenchWindow->    (a window ends, the next begins)
//   kBenchGet ->    batches of gets                <-    kBenchWindowEnded
//             <-    kBenchCount        kBenchLook  ->    which pages are there (server stopped)
//   kBenchEnd ->    ends               kBenchLook  ->    which pages are there (server stopped)
//             <-    kDone                          <-    kBenchLooked
//                                      kBenchQuiet ->    puts nothing more
//                                                  <-    kBenchLooked
//                                      kBenchLook  ->    reads everything back
//                                                  <-    kBenchBalance
//                                      kBenchEnd   ->    ends
//                                                  <-    kDone
#pragma once

#include <cstdint>
#include <string>

#include "orlop/error.h"
#include "platform/process.h"

namespace orlop::cli {

struct BenchWorkerConfig {
  std::string socket;
  std::uint32_t index = 0;
  std::uint64_t phase_ms = 1000;   // throughput: of one phase
  std::uint64_t window_pages = 0;  // throughput: pages that gets choose from; kill: pages read
  std::uint64_t preload = 0;       // throughput: pages put before kReady
  std::uint64_t put_batch = 0;     // kill: pages of one put
  std::uint64_t put_pause_us = 0;  // kill: between two puts
};
std::string to_text(const BenchWorkerConfig& config);
Result<BenchWorkerConfig> parse_bench_worker_config(const std::string& text);

struct BenchCountBody {
  std::uint64_t values = 0;  // stored, or read with the right checksum
  std::uint64_t missed = 0;
  MonoNs spent = 0;
};

struct BenchWindowBody {
  MonoNs longest_gap = 0;    // between two local hits
  std::uint64_t hits = 0;    // pages
  std::uint64_t missed = 0;  // look-ups of pages that are there
  // Of the first put begun under another server than that of the last one told; 0: none.
  MonoNs first_stored_at = 0;
};

struct BenchLookedBody {
  std::uint64_t present = 0;  // of the pages this worker knows to be stored
};

struct BenchBalanceBody {
  std::uint64_t stored = 0;   // pages whose commit was answered kStored, since the start
  std::uint64_t missing = 0;  // of those, not there now
  // Of those, the pages missing that were there when kBenchLook came or were stored later.
  std::uint64_t missing_since_look = 0;
  std::uint64_t wrong = 0;       // read with wrong bytes, ever
  std::uint64_t not_stored = 0;  // keys that got another answer than kStored
};

int bench_throughput_worker_main(const std::string& config_text);
int bench_kill_worker_main(const std::string& config_text);

}  // namespace orlop::cli
