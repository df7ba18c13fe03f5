// SPDX-License-Identifier: Apache-2.0
// gpu_bench [--json] [--out FILE] [--only GROUP]... [--device N] [--calibrate]
//
// Measures the GPU engines against cudaMemcpyAsync; JSON or a table on stdout, progress on stderr.
// --calibrate first measures which engine serves which batch and saves that for this machine.
// Exit status 0 if all bars hold, 1 if not, 2 on errors.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "gpu/bench/gpu_bench.h"
#include "gpu/cuda_device.h"

namespace {

using namespace orlop;
using namespace orlop::gpu;

int complain(const std::string& what) {
  std::fprintf(stderr, "gpu_bench: %s\n", what.c_str());
  return 2;
}

struct Arguments {
  GpuBenchOptions options;
  bool json = false, calibrate = false;
  std::string out;
};

Result<Arguments> read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      arguments.json = true;
    } else if (name == "--calibrate") {
      arguments.calibrate = true;
    } else if (i + 1 < argc && name == "--out") {
      arguments.out = argv[++i];
    } else if (i + 1 < argc && name == "--only") {
      arguments.options.only.emplace_back(argv[++i]);
    } else if (i + 1 < argc && name == "--device") {
      arguments.options.device = std::atoi(argv[++i]);
    } else {
      return fail(ErrorCode::kInvalidArgument,
                  "unknown or incomplete argument '" + std::string(name) +
                      "'; [--json] [--out FILE] [--only GROUP]... [--device N] [--calibrate]");
    }
  }
  return arguments;
}

Result<void> calibrate(int device) {
  const Result<EngineTableKey> key = device_key(device);
  if (!key) return std::unexpected(key.error());
  const auto path = engine_table_path(*key);
  if (!path) return fail(ErrorCode::kInvalidArgument, "neither XDG_CACHE_HOME nor HOME is set");
  const Result<EngineTable> table = calibrate_engines(device);
  if (!table) return std::unexpected(table.error());
  if (Result<void> saved = save_engine_table(*path, *key, *table); !saved) return saved;
  std::fprintf(stderr, "calibrated: %s\n", path->c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Result<Arguments> arguments = read(argc, argv);
  if (!arguments) return complain(arguments.error().message);
  arguments->options.progress = [](const std::string& what) {
    std::fprintf(stderr, "... %s\n", what.c_str());
  };
  if (arguments->calibrate) {
    const Result<void> done = calibrate(arguments->options.device);
    if (!done) return complain(done.error().message);
  }
  const Result<GpuBenchReport> report = run_gpu_bench(arguments->options);
  if (!report) return complain(report.error().message);
  const std::string json = to_json(*report);
  if (!arguments->out.empty()) {
    std::ofstream file(arguments->out);
    file << json;
    file.close();
    if (!file) return complain("cannot write " + arguments->out);
  }
  std::fputs(arguments->json ? json.c_str() : to_table(*report).c_str(), stdout);
  return report->ok() ? 0 : 1;
}
