// SPDX-License-Identifier: Apache-2.0
// bench: rows copy_*, measured by src/copy/copy_bench.h.
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/bench_run.h"
#include "copy/copy_bench.h"

namespace orlop::cli {
namespace {

std::string row_name(CopyKind kind, bool get, bool cached) {
  return "copy_" + std::string(to_string(kind)) + (get ? "_get" : "_put") +
         (cached ? "_cached" : "_1gib");
}

constexpr CopyKind kKinds[] = {CopyKind::kAvx512, CopyKind::kAvx2};

// Rows of instruction sets that this CPU lacks are no bars here.
CopyBenchOptions options_for(BenchRun& run) {
  CopyBenchOptions options;
  if (run.quick()) {
    options.working_set_bytes = std::size_t{256} << 20;
    options.cached_rounds = 7;
    options.memory_rounds = 3;
  }
  for (const CopyKind kind : kKinds) {
    bool wanted = false;
    for (const bool get : {false, true}) {
      for (const bool cached : {true, false}) {
        const std::string row = row_name(kind, get, cached);
        if (!run.wants(row)) continue;
        wanted = true;
        if (!CopyEngine::supported(kind)) {
          run.skip(row, "this CPU has no " + std::string(to_string(kind)));
        }
      }
    }
    if (wanted && CopyEngine::supported(kind)) options.kinds.push_back(kind);
  }
  return options;
}

}  // namespace

Result<void> bench_copies(BenchRun& run) {
  const CopyBenchOptions options = options_for(run);
  if (options.kinds.empty()) return {};
  const auto rows = run_copy_bench(options);
  if (!rows) return std::unexpected(rows.error());
  for (const CopyBenchRow& row : *rows) {
    const std::string name = row_name(row.kind, row.get, row.cached);
    if (!run.wants(name)) continue;
    char sides[80];
    std::snprintf(sides, sizeof sides, "%.1f GB/s against %.1f", row.copy_gb_s, row.memcpy_gb_s);
    run.set(name, row.ratio, sides);
  }
  return {};
}

}  // namespace orlop::cli
