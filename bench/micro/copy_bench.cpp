// SPDX-License-Identifier: Apache-2.0
// copy_bench [WORKING_SET]: copy + checksum against memcpy, one row a kind, set and direction.
// WORKING_SET as "1GiB" (the default). Exit status 0 if all bars hold, 1 if not, 2 on bad input.
//
// A set below the streaming threshold shows ordinary stores in both rows; with
// ORLOP_COPY_STREAM_BYTES=0 every row streams: so the threshold can be found on a new machine.
#include "copy/copy_bench.h"

#include <cstdio>
#include <cstdlib>

#include "base/units.h"

int main(int argc, char** argv) {
  const auto& configured = orlop::environment_copy_engine();
  if (!configured) {
    std::fprintf(stderr, "copy_bench: %s\n", configured.error().message.c_str());
    return 2;
  }
  orlop::CopyBenchOptions options;
  if (std::getenv("ORLOP_COPY_STREAM_BYTES") != nullptr) {
    options.stream_bytes = configured->stream_in_bytes();  // it sets both
  }
  if (argc > 1) {
    const auto working_set = orlop::parse_bytes(argv[1]);
    if (!working_set) {
      std::fprintf(stderr, "copy_bench: %s\n", working_set.error().message.c_str());
      return 2;
    }
    options.working_set_bytes = *working_set;
  }
  const auto rows = orlop::run_copy_bench(options);
  if (!rows) {
    std::fprintf(stderr, "copy_bench: %s\n", rows.error().message.c_str());
    return 2;
  }
  bool all_ok = true;
  std::printf("%-42s %12s %12s %7s %6s\n", "row", "memcpy GB/s", "copy GB/s", "ratio", "bar");
  for (const orlop::CopyBenchRow& row : *rows) {
    std::printf("%-42s %12.1f %12.1f %7.2f %6.2f%s\n", row.name.c_str(), row.memcpy_gb_s,
                row.copy_gb_s, row.ratio, row.bar, row.ok() ? "" : "  BELOW");
    all_ok = all_ok && row.ok();
  }
  return all_ok ? 0 : 1;
}
