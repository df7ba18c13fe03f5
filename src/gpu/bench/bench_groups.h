// SPDX-License-Identifier: Apache-2.0
// Internal to the GPU benchmark: its groups of rows. Each appends to `rows`. Errors stop the run.
#pragma once

#include <vector>

#include "gpu/bench/bench_bed.h"
#include "gpu/bench/gpu_bench.h"

namespace orlop::gpu {

struct BenchRun {
  const GpuBenchOptions& options;
  BenchBed& bed;
  CudaCopier& copier;  // by the table
  std::vector<GpuBenchRow>& rows;
};

Result<std::unique_ptr<CudaCopier>> bench_copier(int device, std::optional<EngineKind> engine,
                                                 unsigned blocks = 8);
BenchShape opaque_shape(std::uint64_t piece_bytes);  // 72 pieces a value
BenchShape latent_shape();                           // MLA

Result<void> bench_graph(BenchRun& run);       // what copies leave behind for a model
Result<void> bench_throughput(BenchRun& run);  // one way and both ways, all placements
Result<void> bench_latency(BenchRun& run);     // 1 and 16 pages
Result<void> bench_ranges(BenchRun& run);      // 8 layer ranges
Result<void> bench_submit(BenchRun& run);      // CPU time
Result<void> bench_gemm(BenchRun& run);        // beside a model
Result<void> bench_host(BenchRun& run);        // engine host
Result<void> bench_baselines(BenchRun& run);   // what users have today
Result<void> bench_order(BenchRun& run);       // head-first against token-first
Result<void> bench_registration(BenchRun& run);

// The same shape on both sides of the bed.
struct BothWays {
  BenchBatch restore, backup;
};
Result<BothWays> both_ways(BenchRun& run, const BenchShape& shape, std::size_t values,
                           BenchPlacement placement);

// Both directions at once; returns when both are done.
Result<void> run_both(PageCopier& copier, const BenchBatch& restore, const BenchBatch& backup);
Result<void> plain_both(const BenchBatch& restore, const BenchBatch& backup);

}  // namespace orlop::gpu
