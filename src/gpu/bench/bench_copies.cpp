// SPDX-License-Identifier: Apache-2.0
// Throughput, latency, layer ranges and the cost of submitting.
#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "gpu/bench/bench_groups.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

constexpr BenchPlacement kPlacements[] = {BenchPlacement::kAdjacent, BenchPlacement::kRuns,
                                          BenchPlacement::kScattered};

// The bars of the project (issue "GPU copies at link speed"). Runs of 16 are held to the scattered
// bar.
double one_way_bar(BenchPlacement placement) {
  return placement == BenchPlacement::kAdjacent ? 0.99 : 0.97;
}
double both_ways_bar(BenchPlacement placement) {
  return placement == BenchPlacement::kAdjacent ? 0.98 : 0.95;
}

GpuBenchRow rate_row(std::string name, double bytes, const BenchPair& pair, double bar) {
  GpuBenchRow row;
  row.group = "throughput";
  row.name = std::move(name);
  row.unit = "GB/s";
  row.value = bytes / pair.ours / 1e9;
  row.baseline = bytes / pair.theirs / 1e9;
  row.judged = 1 / pair.ratio;
  row.bar_kind = BarKind::kAtLeast;
  row.bar = bar;
  return row;
}

std::size_t values_for(const BenchShape& shape, std::uint64_t bytes) {
  return std::max<std::size_t>(bytes / shape.value_bytes(), 1);
}

Result<void> throughput_of(BenchRun& run, const BenchShape& shape, BenchPlacement placement) {
  const std::size_t values = values_for(shape, run.options.batch_bytes);
  auto both = both_ways(run, shape, values, placement);
  BENCH_TRY(both);
  const auto& [restore, backup] = *both;
  const auto bytes = static_cast<double>(restore.bytes());
  const std::string name = shape.name + " " + to_string(placement);
  for (const BenchBatch* batch : {&restore, &backup}) {
    BENCH_TRY(batch->check(run.copier));
    auto pair = measure_pairs(
        run.options.pairs, [&] { return batch->run(run.copier); },
        [&] { return batch->plain_copy(); });
    BENCH_TRY(pair);
    run.rows.push_back(
        rate_row((batch->direction() == CopyDirection::kRestore ? "restore " : "backup ") + name,
                 bytes, *pair, one_way_bar(placement)));
  }
  auto pair = measure_pairs(
      run.options.pairs, [&] { return run_both(run.copier, restore, backup); },
      [&] { return plain_both(restore, backup); });
  BENCH_TRY(pair);
  run.rows.push_back(rate_row("both ways " + name, 2 * bytes, *pair, both_ways_bar(placement)));
  return {};
}

Result<void> latency_of(BenchRun& run, CopyDirection direction, std::size_t pages, double bar) {
  const BenchShape shape = opaque_shape(4096);
  auto batch =
      BenchBatch::make(run.bed.side(direction), direction, shape, pages, BenchPlacement::kAdjacent);
  BENCH_TRY(batch);
  BENCH_TRY(batch->check(run.copier));
  for (const std::optional<EngineKind> engine :
       {std::optional<EngineKind>(), std::optional(EngineKind::kStaged),
        std::optional(EngineKind::kDirect), std::optional(EngineKind::kPieces)}) {
    std::unique_ptr<CudaCopier> own;
    if (engine) {
      auto made = bench_copier(run.options.device, engine);
      BENCH_TRY(made);
      own = std::move(*made);
    }
    CudaCopier& copier = engine ? *own : run.copier;
    auto pair = measure_pairs(
        run.options.short_pairs, [&] { return batch->run(copier); },
        [&] { return batch->plain_copy(); });
    BENCH_TRY(pair);
    GpuBenchRow row;
    row.group = "latency";
    row.name = std::string(direction == CopyDirection::kRestore ? "restore " : "backup ") +
               std::to_string(pages) + (pages == 1 ? " page" : " pages") + " of 288 KiB";
    if (engine) row.name += ", " + std::string(to_string(*engine));
    row.unit = "us";
    row.value = pair->ours * 1e6;
    row.baseline = pair->theirs * 1e6;
    row.judged = row.value / row.baseline;
    if (!engine && bar > 0) {
      row.bar_kind = BarKind::kAtMost;
      row.bar = bar;
    }
    row.note = "p99 " + std::to_string(static_cast<int>(pair->ours_p99 * 1e6)) + " us";
    if (!engine) {
      row.note +=
          ", engine " +
          std::string(to_string(copier.engine_for(batch->layout(), direction, pages, true)));
    }
    run.rows.push_back(std::move(row));
  }
  return {};
}

}  // namespace

BenchShape opaque_shape(std::uint64_t piece_bytes) {
  return {.name = format_bytes(piece_bytes), .row_bytes = piece_bytes};
}

BenchShape latent_shape() {
  // 61 layers of 576 bf16 a token, pages of 64 tokens: one part a layer.
  return {.name = "MLA 72 KiB", .layers = 61, .parts = 1, .tokens = 64, .row_bytes = 1152};
}

Result<BothWays> both_ways(BenchRun& run, const BenchShape& shape, std::size_t values,
                           BenchPlacement placement) {
  auto restore = BenchBatch::make(run.bed.side(CopyDirection::kRestore), CopyDirection::kRestore,
                                  shape, values, placement);
  BENCH_TRY(restore);
  auto backup = BenchBatch::make(run.bed.side(CopyDirection::kBackup), CopyDirection::kBackup,
                                 shape, values, placement);
  BENCH_TRY(backup);
  return BothWays{*std::move(restore), *std::move(backup)};
}

Result<void> run_both(PageCopier& copier, const BenchBatch& restore, const BenchBatch& backup) {
  auto first = copier.submit(restore.request());
  BENCH_TRY(first);
  auto second = copier.submit(backup.request());
  BENCH_TRY(second);
  BENCH_TRY(wait_for(**first));
  return wait_for(**second);
}

Result<void> plain_both(const BenchBatch& restore, const BenchBatch& backup) {
  BENCH_TRY(restore.start_plain_copy());
  BENCH_TRY(backup.start_plain_copy());
  ORLOP_CUDA(cudaStreamSynchronize, restore.side().stream.get());
  ORLOP_CUDA(cudaStreamSynchronize, backup.side().stream.get());
  return {};
}

Result<void> bench_throughput(BenchRun& run) {
  std::vector<BenchShape> shapes;
  for (const std::uint64_t piece : {4, 16, 32, 128}) shapes.push_back(opaque_shape(piece << 10));
  shapes.push_back(latent_shape());
  for (const BenchShape& shape : shapes) {
    for (const BenchPlacement placement : kPlacements) {
      run.options.progress("throughput " + shape.name + " " + to_string(placement));
      BENCH_TRY(throughput_of(run, shape, placement));
    }
  }
  return {};
}

Result<void> bench_latency(BenchRun& run) {
  for (const CopyDirection direction : {CopyDirection::kRestore, CopyDirection::kBackup}) {
    BENCH_TRY(latency_of(run, direction, 1, 1.5));
    BENCH_TRY(latency_of(run, direction, 4, 0));
    BENCH_TRY(latency_of(run, direction, 16, 1.2));
    BENCH_TRY(latency_of(run, direction, 64, 0));
  }
  return {};
}

Result<void> bench_ranges(BenchRun& run) {
  for (const auto& [piece, pages] :
       {std::pair<std::uint64_t, std::size_t>{4096, 512}, {4096, 2000}, {32768, 512}}) {
    const BenchShape shape = opaque_shape(piece);
    if (shape.value_bytes() * pages > run.bed.side_bytes()) continue;
    auto batch = BenchBatch::make(run.bed.side(CopyDirection::kRestore), CopyDirection::kRestore,
                                  shape, pages, BenchPlacement::kAdjacent);
    BENCH_TRY(batch);
    const std::vector<LayerRange> ranges = batch->ranges(8);
    std::vector<double> firsts;
    const auto split = [&]() -> Result<void> {
      CopyRequest request = batch->request();
      request.ranges = ranges;
      const auto start = std::chrono::steady_clock::now();
      auto job = run.copier.submit(request);
      BENCH_TRY(job);
      while (!(*job)->range_done(0) && !(*job)->done()) {
      }
      firsts.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      return wait_for(**job);
    };
    auto pair = measure_pairs(run.options.pairs * 3, split, [&] { return batch->run(run.copier); });
    BENCH_TRY(pair);
    std::ranges::sort(firsts);
    GpuBenchRow row;
    row.group = "ranges";
    row.name = std::to_string(pages) + " pages of " + shape.name + " pieces, 8 ranges: total";
    row.unit = "ms";
    row.value = pair->ours * 1e3;
    row.baseline = pair->theirs * 1e3;
    row.judged = row.value / row.baseline;
    row.bar_kind = BarKind::kAtMost;
    row.bar = 1.03;
    row.note = "against the same copy unsplit";
    run.rows.push_back(row);
    row.name = std::to_string(pages) + " pages of " + shape.name + " pieces, 8 ranges: first";
    row.baseline = row.value;
    row.value = firsts[firsts.size() / 2] * 1e3;
    row.judged = row.value / row.baseline;
    row.bar = 0.17;
    row.note = "share of the total";
    run.rows.push_back(row);
  }
  return {};
}

Result<void> bench_submit(BenchRun& run) {
  // The caller submits it all, so that its time is the whole.
  constexpr std::uint64_t kAll = std::uint64_t{1} << 40;
  auto copier = make_cuda_copier({.device = run.options.device,
                                  .engine = EngineKind::kStaged,
                                  .window_bytes = kAll,
                                  .callers_bytes = kAll});
  BENCH_TRY(copier);
  const BenchShape shape = opaque_shape(4096);
  for (const BenchPlacement placement : kPlacements) {
    auto batch = BenchBatch::make(run.bed.side(CopyDirection::kRestore), CopyDirection::kRestore,
                                  shape, values_for(shape, run.options.batch_bytes), placement);
    BENCH_TRY(batch);
    std::vector<double> took;
    for (int i = 0; i <= run.options.pairs; ++i) {
      timespec before{}, after{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
      auto job = (*copier)->submit(batch->request());
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
      BENCH_TRY(job);
      BENCH_TRY(wait_for(**job));
      took.push_back(static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                     static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-6);
    }
    std::ranges::sort(took);
    GpuBenchRow row;
    row.group = "submit";
    row.name = "CPU time to submit, 4 KiB pieces " + to_string(placement);
    row.unit = "ms/GiB";
    row.value = took[took.size() / 2] / (static_cast<double>(batch->bytes()) / (1 << 30));
    row.judged = row.value;
    if (placement == BenchPlacement::kAdjacent) {
      row.bar_kind = BarKind::kAtMost;
      row.bar = 1.0;
    }
    run.rows.push_back(std::move(row));
  }
  return {};
}

}  // namespace orlop::gpu
