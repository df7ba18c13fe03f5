// SPDX-License-Identifier: Apache-2.0
// `orlop bench gpu`: hands over to the program that measures the GPU copy path. It is a program of
// its own, so that `orlop` needs nothing of CUDA. The engine for CPU memory is measured here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/exit_code.h"

namespace orlop::cli {

struct GpuBenchArguments {
  bool json = false;
  bool host = false;                                   // the engine for CPU memory only
  std::uint64_t working_set = std::uint64_t{1} << 30;  // of that engine's rows, on each side
  std::vector<std::string> program{};                  // what the program understands, --json apart
};

// The bars of the engine for CPU memory.
ExitCode run_host_engine_bench(const GpuBenchArguments& arguments);

// Becomes gpu_bench in this folder (empty: that of the running program): its output and exit status
// are the command's. Where it is not there or there is no device says so on standard error and
// measures the engine for CPU memory; with `host` says nothing.
ExitCode run_gpu_bench(const GpuBenchArguments& arguments, const std::string& folder = {});

// The hand-over alone. Returns only when the program cannot be started, which it says.
ExitCode become_gpu_bench(const std::string& program, const GpuBenchArguments& arguments);

}  // namespace orlop::cli
