// SPDX-License-Identifier: Apache-2.0
// Measures copy + checksum against memcpy on this machine: the figures behind `orlop bench local`
// and the program copy_bench.
//
// Only ratios mean something: memcpy and every kind take turns inside one run, and each is judged
// by its best turn, so that other load on a shared machine disturbs them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "copy/copy.h"

namespace orlop {

struct CopyBenchOptions {
  std::size_t value_bytes = 64 * 1024;
  // Bytes on each side, source and destination, that one turn walks over; whole values. The first
  // pair fits a core's own (L2) cache, the second leaves every cache. Twice the working set must be
  // free memory: nothing checks that here.
  std::size_t cached_set_bytes = 256 * 1024;
  std::size_t working_set_bytes = std::size_t{1} << 30;
  // Bytes a cached turn copies, over and over the cached set.
  std::size_t cached_turn_bytes = std::size_t{32} << 20;
  int cached_rounds = 15;
  int memory_rounds = 7;
  // Kinds to measure; empty = all this CPU has.
  std::vector<CopyKind> kinds;
  // nullopt: the default threshold decides (cached: ordinary stores, memory: non-temporal ones).
  std::optional<std::uint64_t> stream_bytes;
};

struct CopyBenchRow {
  std::string name;  // "copy avx512 put 64 KiB in cache"; unique in one result
  CopyKind kind = CopyKind::kScalar;
  bool get = false;     // false: private memory -> memfd (put); true: memfd -> private memory
  bool cached = false;  // which of the two sets
  double memcpy_gb_s = 0;
  double copy_gb_s = 0;
  double ratio = 0;  // copy / memcpy: what the bar is about
  double bar = 0;    // 0 = none (scalar)
  bool ok() const { return ratio >= bar; }
};

// The bars of the project: AVX-512 0.8 cached and 1.2 in memory, AVX2 0.7 and 1.05, scalar none.
double copy_bench_bar(CopyKind kind, bool cached);

// One thread, a few seconds with the defaults. Errors: kInvalidArgument (a set smaller than a
// value, rounds < 1, a kind this CPU lacks), kSystem (mapping the sets).
Result<std::vector<CopyBenchRow>> run_copy_bench(const CopyBenchOptions& options = {});

}  // namespace orlop
