// SPDX-License-Identifier: Apache-2.0
// Measures the GPU engines on this machine against cudaMemcpyAsync of the same bytes: the figures
// behind `orlop bench gpu`, the program gpu_bench and docs/benchmarks/gpu.md.
//
// Ratios come from alternating pairs inside one run (ratio of medians), so that a link or a machine
// that changes its mood disturbs both sides alike. Rows without a bar are printed to be compared
// with.
// Thread: one; a device for itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/engine_table.h"
#include "orlop/error.h"

namespace orlop::gpu {

struct GpuBenchOptions {
  int device = 0;
  std::uint64_t batch_bytes = std::uint64_t{1} << 30;  // of a throughput row, in one direction
  int pairs = 15;                                      // of a throughput row
  int short_pairs = 101;                               // of a latency row
  std::vector<std::string>
      only;  // groups: graph, throughput, latency, ranges, submit, gemm, host, ...
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

enum class BarKind : std::uint8_t { kNone, kAtLeast, kAtMost };

struct GpuBenchRow {
  std::string group;    // "throughput"
  std::string name;     // "restore 4 KiB adjacent"; unique within its group
  std::string unit;     // of value and baseline: "GB/s", "us", "ms/GiB", "ms"
  double value = 0;     // ours (or of what the row names), median
  double baseline = 0;  // beside it, median; 0: none
  double judged = 0;    // what the bar is about: mostly value / baseline
  BarKind bar_kind = BarKind::kNone;
  double bar = 0;
  std::string note;
  bool ok() const;
};

struct GpuBenchReport {
  std::string device, uuid, driver, cpu, kernel, date;  // of the machine; date in UTC
  std::string link;  // "32.0 GT/s PCIe x16 (of 32.0 GT/s PCIe x16)"
  std::vector<GpuBenchRow> rows;
  bool ok() const;
};

// Some minutes with the defaults; needs 4 GiB of memory on both sides. Errors: kSystem (CUDA),
// kNoMemory, kInvalidArgument: no such group (before any call); kCorrupt: a copy was wrong (sums
// are compared in every row).
Result<GpuBenchReport> run_gpu_bench(const GpuBenchOptions& options);

// Finds the fastest engine for each kind of batch; about half a minute.
Result<EngineTable> calibrate_engines(int device);

std::string to_json(const GpuBenchReport& report);
std::string to_table(const GpuBenchReport& report);

}  // namespace orlop::gpu
