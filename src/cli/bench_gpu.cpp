// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_gpu.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/bench_bars.h"
#include "cli/command.h"
#include "cli/json_parts.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "gpu/host_bench.h"
#include "platform/cuda_driver.h"

namespace orlop::cli {
namespace {

constexpr char kProgram[] = "gpu_bench";

std::string own_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
}

// Why the program cannot measure here; empty: it can.
std::string obstacle(const std::string& program) {
  if (::access(program.c_str(), X_OK) != 0) {
    return "there is no " + program + " (builds with a CUDA toolkit have it)";
  }
  const CudaDriver driver = ask_cuda_driver();
  if (!driver.works) return driver.why;
  return driver.devices.empty() ? "the GPU driver knows no device" : "";
}

BenchBar bar_of(const gpu::HostBenchRow& row) {
  char sides[80];
  std::snprintf(sides, sizeof sides, "%.1f GB/s against %.1f", row.gb_s, row.baseline_gb_s);
  return {.name = row.name,
          .value = row.ratio,
          .bar = row.bar,
          .sense = BarSense::kAtLeast,
          .unit = "x",
          .note = sides};
}

}  // namespace

ExitCode run_host_engine_bench(const GpuBenchArguments& arguments) {
  BenchReport report;
  report.machine = this_machine();  // its load before ours
  report.date = utc_date();
  Progress progress(STDERR_FILENO, "bench", false);
  const auto rows = gpu::run_host_bench(
      {.working_set_bytes = arguments.working_set,
       .progress = [&progress](const std::string& text) { progress.say(text); }});
  progress.finish();
  if (!rows) return report_error("bench", rows.error());
  for (const gpu::HostBenchRow& row : *rows) report.bars.push_back(bar_of(row));
  if (arguments.json) {
    print_json(to_json(report));
  } else {
    std::printf("%s", to_table(report, Painter(wants_colour(STDOUT_FILENO))).c_str());
  }
  return report.ok() ? ExitCode::kOk : ExitCode::kBad;
}

ExitCode become_gpu_bench(const std::string& program, const GpuBenchArguments& arguments) {
  std::vector<std::string> words = {program};
  if (arguments.json) words.emplace_back("--json");
  words.insert(words.end(), arguments.program.begin(), arguments.program.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  ::execv(program.c_str(), argv.data());
  std::fprintf(stderr, "orlop bench: %s cannot be started: %s\n", program.c_str(),
               std::strerror(errno));
  return ExitCode::kFailed;
}

ExitCode run_gpu_bench(const GpuBenchArguments& arguments, const std::string& folder) {
  if (arguments.host) return run_host_engine_bench(arguments);
  const std::string program = (folder.empty() ? own_folder() : folder) + "/" + kProgram;
  const std::string why = obstacle(program);
  if (why.empty()) return become_gpu_bench(program, arguments);
  std::fprintf(
      stderr,
      "orlop bench: no GPU copy can be measured here: %s; these are the bars of the engine "
      "for CPU memory\n",
      why.c_str());
  return run_host_engine_bench(arguments);
}

}  // namespace orlop::cli
