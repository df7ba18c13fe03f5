// SPDX-License-Identifier: Apache-2.0
// gpu_host_bench [WORKING_SET]: the engine for CPU memory, checksum on, against memcpy of the same
// pieces. WORKING_SET as "1GiB" (the default), on each side. Exit status 0 if all bars hold, 1 if
// not, 2 on bad input.
#include <cstdio>

#include "base/units.h"
#include "copy/copy.h"
#include "gpu/host_bench.h"

int main(int argc, char** argv) {
  if (const auto& configured = orlop::environment_copy_engine(); !configured) {
    std::fprintf(stderr, "gpu_host_bench: %s\n", configured.error().message.c_str());
    return 2;
  }
  orlop::gpu::HostBenchOptions options;
  if (argc > 1) {
    const auto working_set = orlop::parse_bytes(argv[1]);
    if (!working_set) {
      std::fprintf(stderr, "gpu_host_bench: %s\n", working_set.error().message.c_str());
      return 2;
    }
    options.working_set_bytes = *working_set;
  }
  const auto rows = orlop::gpu::run_host_bench(options);
  if (!rows) {
    std::fprintf(stderr, "gpu_host_bench: %s\n", rows.error().message.c_str());
    return 2;
  }
  bool all_ok = true;
  std::printf("%-78s %9s %9s %6s %5s\n", "row", "GB/s", "baseline", "ratio", "bar");
  for (const orlop::gpu::HostBenchRow& row : *rows) {
    std::printf("%-78s %9.1f %9.1f %6.2f %5.2f%s\n", row.name.c_str(), row.gb_s, row.baseline_gb_s,
                row.ratio, row.bar, row.ok() ? "" : "  BELOW");
    all_ok = all_ok && row.ok();
  }
  return all_ok ? 0 : 1;
}
