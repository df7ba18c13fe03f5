// SPDX-License-Identifier: Apache-2.0
// Which engine is the fastest for which batch, on this machine.
#include <array>

#include "gpu/bench/bench_groups.h"
#include "gpu/bench/gpu_bench.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kPieces[] = {4 << 10, 32 << 10, 256 << 10};
constexpr std::uint64_t kBatches[] = {256 << 10, 1 << 20,  4 << 20, 8 << 20,
                                      16 << 20,  32 << 20, 64 << 20};
constexpr EngineKind kEngines[] = {EngineKind::kStaged, EngineKind::kDirect, EngineKind::kPieces};
constexpr int kRuns = 15;
// Staged leaves multiprocessors to the model and shares the link: another engine has to be clearly
// faster.
constexpr double kClearly = 0.95;
// One value of the smallest batch has so many pieces.
constexpr std::uint32_t kPiecesPerValue = 8;

Result<EngineKind> fastest(BenchBed& bed, const std::array<std::unique_ptr<CudaCopier>, 3>& copiers,
                           CopyDirection direction, std::uint64_t piece, std::uint64_t batch_bytes,
                           bool adjacent) {
  const BenchShape shape{.name = "", .layers = kPiecesPerValue / 2, .row_bytes = piece};
  const std::size_t values = std::max<std::size_t>(batch_bytes / shape.value_bytes(), 1);
  auto batch = BenchBatch::make(bed.side(direction), direction, shape, values,
                                adjacent ? BenchPlacement::kAdjacent : BenchPlacement::kScattered);
  BENCH_TRY(batch);
  EngineKind best = EngineKind::kStaged;
  double best_seconds = 0;
  for (std::size_t i = 0; i < copiers.size(); ++i) {
    auto seconds = measure_median(kRuns, [&] { return batch->run(*copiers[i]); });
    BENCH_TRY(seconds);
    if (i == 0 || *seconds < best_seconds * kClearly) {
      best = kEngines[i];
      best_seconds = *seconds;
    }
  }
  return best;
}

}  // namespace

Result<EngineTable> calibrate_engines(int device) {
  auto bed = BenchBed::make(device, std::uint64_t{128} << 20);
  BENCH_TRY(bed);
  std::array<std::unique_ptr<CudaCopier>, 3> copiers;
  for (std::size_t i = 0; i < copiers.size(); ++i) {
    auto copier = bench_copier(device, kEngines[i]);
    BENCH_TRY(copier);
    copiers[i] = std::move(*copier);
  }
  EngineTable table;
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    for (const bool adjacent : {false, true}) {
      for (std::size_t p = 0; p < std::size(kPieces); ++p) {
        std::optional<EngineKind> before;
        for (std::size_t b = 0; b < std::size(kBatches); ++b) {
          auto best = fastest(**bed, copiers, direction, kPieces[p], kBatches[b], adjacent);
          BENCH_TRY(best);
          if (before == *best) continue;  // the cell before reaches up to here
          before = *best;
          table.cells.push_back({.direction = direction,
                                 .adjacent = adjacent,
                                 .piece_bytes = p == 0 ? 0 : kPieces[p],
                                 .batch_bytes = b == 0 ? 0 : kBatches[b],
                                 .engine = *best});
        }
      }
    }
  }
  return table;
}

}  // namespace orlop::gpu
