// SPDX-License-Identifier: Apache-2.0
// Measures the engine for CPU memory against memcpy of the same pieces: the host part of
// `orlop bench gpu`, and the program gpu_host_bench. Needs no GPU.
//
// Only ratios mean something: both take turns inside one run and each is judged by its best turn,
// so that other load on a shared machine disturbs them alike. One copying thread on either side.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "orlop/error.h"

namespace orlop::gpu {

struct HostBenchOptions {
  // Bytes on each side, pages and values, that one turn copies; twice that must be free memory.
  std::size_t working_set_bytes = std::size_t{1} << 30;
  int rounds = 5;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct HostBenchRow {
  std::string name;          // "host restore 4 KiB pieces"; unique in one result
  double gb_s = 0;           // 10^9 bytes a second, checksum on
  double baseline_gb_s = 0;  // memcpy; in rows of orders: the engine in token-first order
  double ratio = 0;
  double bar = 0;  // 0: none
  bool ok() const { return ratio >= bar; }
};

inline constexpr double kHostBar = 0.90;

// Pieces of 4, 16, 32 and 128 KiB, 72 a value, and what the canonical order costs a cache that
// keeps tokens before heads. About a minute. Errors: kInvalidArgument (a set smaller than a value,
// rounds below 1), kSystem (memory), kCorrupt: a sum was wrong.
Result<std::vector<HostBenchRow>> run_host_bench(const HostBenchOptions& options = {});

}  // namespace orlop::gpu
