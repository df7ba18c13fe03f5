// SPDX-License-Identifier: Apache-2.0
// What users have today, the engine for CPU memory, the order of values, registration.
#include <algorithm>

#include "base/units.h"
#include "gpu/bench/bench_groups.h"
#include "gpu/cuda_call.h"
#include "gpu/host_bench.h"

namespace orlop::gpu {
namespace {

// Piece by piece, as a caller without Orlop would: value after value, its pieces to their pages.
struct PieceList {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> bytes;
};

PieceList pieces_of(const BenchBatch& batch, std::uint64_t piece) {
  PieceList list;
  const CopyRequest request = batch.request();
  const bool restore = batch.direction() == CopyDirection::kRestore;
  for (std::size_t i = 0; i < batch.values().size(); ++i) {
    for (const CompiledPart& part : batch.layout().parts()) {
      auto* const cache = reinterpret_cast<std::byte*>(
          row_in_cache(part, static_cast<std::uint64_t>(request.pages[0][i]), 0, 0));
      std::byte* const value = batch.values()[i] + part.value_offset;
      list.to.push_back(restore ? cache : value);
      list.from.push_back(restore ? value : cache);
      list.bytes.push_back(piece);
    }
  }
  return list;
}

Result<void> copy_one_by_one(const BenchBatch& batch, const PieceList& list) {
  const cudaStream_t stream = batch.side().stream.get();
  const cudaMemcpyKind kind = batch.direction() == CopyDirection::kRestore ? cudaMemcpyHostToDevice
                                                                           : cudaMemcpyDeviceToHost;
  for (std::size_t i = 0; i < list.to.size(); ++i) {
    ORLOP_CUDA(cudaMemcpyAsync, list.to[i], list.from[i], list.bytes[i], kind, stream);
  }
  ORLOP_CUDA(cudaStreamSynchronize, stream);
  return {};
}

Result<void> copy_in_batches(const BenchBatch& batch, const PieceList& list) {
  constexpr std::size_t kBatch = 8192;
  const cudaStream_t stream = batch.side().stream.get();
  for (std::size_t i = 0; i < list.to.size(); i += kBatch) {
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    ORLOP_CUDA(cudaMemcpyBatchAsync, list.to.data() + i, list.from.data() + i,
               list.bytes.data() + i, std::min(kBatch, list.to.size() - i), &attributes, &first, 1,
               stream);
  }
  ORLOP_CUDA(cudaStreamSynchronize, stream);
  return {};
}

GpuBenchRow baseline_row(std::string name, double bytes, double ours, double theirs) {
  GpuBenchRow row;
  row.group = "baselines";
  row.name = std::move(name);
  row.unit = "GB/s";
  row.value = bytes / ours / 1e9;
  row.baseline = bytes / theirs / 1e9;
  row.judged = row.value / row.baseline;
  return row;
}

// Direct kernels of many blocks, both ways together and alone.
Result<void> direct_baselines(BenchRun& run, const BenchBatch& restore, const BenchBatch& backup,
                              const std::string& shape) {
  for (const unsigned blocks : {8u, 16u, 32u}) {
    auto copier = bench_copier(run.options.device, EngineKind::kDirect, blocks);
    BENCH_TRY(copier);
    const std::string name = "direct kernel, " + std::to_string(blocks) + " blocks, " + shape;
    for (const BenchBatch* batch : {&restore, &backup}) {
      auto pair = measure_pairs(
          3, [&] { return batch->run(**copier); }, [&] { return batch->plain_copy(); });
      BENCH_TRY(pair);
      run.rows.push_back(baseline_row(name + (batch == &restore ? ", restore" : ", backup"),
                                      static_cast<double>(batch->bytes()), pair->ours,
                                      pair->theirs));
    }
    auto pair = measure_pairs(
        3, [&] { return run_both(**copier, restore, backup); },
        [&] { return plain_both(restore, backup); });
    BENCH_TRY(pair);
    run.rows.push_back(baseline_row(name + ", both ways", 2 * static_cast<double>(restore.bytes()),
                                    pair->ours, pair->theirs));
  }
  return {};
}

}  // namespace

Result<void> bench_baselines(BenchRun& run) {
  for (const std::uint64_t piece : {4096, 32768, 131072}) {
    const BenchShape shape = opaque_shape(piece);
    const std::size_t values = (std::uint64_t{256} << 20) / shape.value_bytes();
    auto both = both_ways(run, shape, values, BenchPlacement::kAdjacent);
    BENCH_TRY(both);
    const auto& [restore, backup] = *both;
    for (const BenchBatch* batch : {&restore, &backup}) {
      const std::string way = batch == &restore ? ", restore" : ", backup";
      const PieceList list = pieces_of(*batch, piece);
      const auto bytes = static_cast<double>(batch->bytes());
      auto single = measure_pairs(
          2, [&] { return copy_one_by_one(*batch, list); }, [&] { return batch->plain_copy(); });
      BENCH_TRY(single);
      run.rows.push_back(baseline_row("cudaMemcpyAsync a piece, " + shape.name + way, bytes,
                                      single->ours, single->theirs));
      auto batched = measure_pairs(
          2, [&] { return copy_in_batches(*batch, list); }, [&] { return batch->plain_copy(); });
      BENCH_TRY(batched);
      run.rows.push_back(baseline_row("cudaMemcpyBatchAsync of pieces, " + shape.name + way, bytes,
                                      batched->ours, batched->theirs));
    }
    BENCH_TRY(direct_baselines(run, restore, backup, shape.name));
  }
  return {};
}

Result<void> bench_host(BenchRun& run) {
  const auto rows = run_host_bench({.progress = run.options.progress});
  BENCH_TRY(rows);
  for (const HostBenchRow& measured : *rows) {
    GpuBenchRow row;
    row.group = "host";
    row.name = measured.name;
    row.unit = "GB/s";
    row.value = measured.gb_s;
    row.baseline = measured.baseline_gb_s;
    row.judged = measured.ratio;
    row.bar_kind = measured.bar > 0 ? BarKind::kAtLeast : BarKind::kNone;
    row.bar = measured.bar;
    row.note = measured.bar > 0 ? "one thread, against memcpy of the same pieces"
                                : "against token-first values";
    run.rows.push_back(std::move(row));
  }
  return {};
}

Result<void> bench_order(BenchRun& run) {
  // 8 heads of 128 bf16, pages of 16 tokens that keep tokens before heads.
  BenchShape head_first{
      .name = "8 heads x 256 bytes x 16 tokens", .heads = 8, .tokens = 16, .row_bytes = 256};
  BenchShape token_first = head_first;
  token_first.order = ValueOrder::kTokenHeadChannel;
  const std::size_t values = run.options.batch_bytes / head_first.value_bytes();
  for (const CopyDirection direction : {CopyDirection::kRestore, CopyDirection::kBackup}) {
    auto transposed = BenchBatch::make(run.bed.side(direction), direction, head_first, values,
                                       BenchPlacement::kAdjacent);
    BENCH_TRY(transposed);
    auto straight = BenchBatch::make(run.bed.side(direction), direction, token_first, values,
                                     BenchPlacement::kAdjacent);
    BENCH_TRY(straight);
    BENCH_TRY(transposed->check(run.copier));
    auto pair = measure_pairs(
        run.options.pairs, [&] { return transposed->run(run.copier); },
        [&] { return straight->run(run.copier); });
    BENCH_TRY(pair);
    GpuBenchRow row = baseline_row(
        direction == CopyDirection::kRestore ? "restore head-first" : "backup head-first",
        static_cast<double>(transposed->bytes()), pair->ours, pair->theirs);
    row.group = "order";
    row.note = "against token-first; " + head_first.name + ", 72 parts";
    run.rows.push_back(std::move(row));
  }
  return {};
}

Result<void> bench_registration(BenchRun& run) {
  GpuBenchRow row;
  row.group = "registration";
  row.name = "cudaHostRegister in chunks of 1 GiB";
  row.unit = "GB/s";
  row.value =
      static_cast<double>(run.bed.segment().size()) / run.bed.registration().seconds() / 1e9;
  row.judged = row.value;
  run.rows.push_back(row);

  // Does one copy across two registrations work, and at which speed?
  const std::uint64_t border = HostRegistration::kChunkBytes;
  if (run.bed.segment().size() <= border + (std::uint64_t{128} << 20)) return {};
  const std::uint64_t bytes = std::uint64_t{256} << 20;
  const BenchSide& side = run.bed.side(CopyDirection::kRestore);
  std::byte* const from = run.bed.segment().data() + border - bytes / 2;
  const cudaError_t error =
      cudaMemcpyAsync(side.cache.get(), from, bytes, cudaMemcpyHostToDevice, side.stream.get());
  row.name = "cudaMemcpyAsync across the border of two registrations";
  row.value = row.judged = 0;
  if (error != cudaSuccess) {
    row.note = cuda_failure(error, "refused").error().message;
    run.rows.push_back(row);
    return {};
  }
  auto pair = measure_pairs(
      5,
      [&]() -> Result<void> {
        ORLOP_CUDA(cudaMemcpyAsync, side.cache.get(), from, bytes, cudaMemcpyHostToDevice,
                   side.stream.get());
        ORLOP_CUDA(cudaStreamSynchronize, side.stream.get());
        return {};
      },
      [&]() -> Result<void> {
        ORLOP_CUDA(cudaMemcpyAsync, side.cache.get(), from - bytes / 2, bytes,
                   cudaMemcpyHostToDevice, side.stream.get());
        ORLOP_CUDA(cudaStreamSynchronize, side.stream.get());
        return {};
      });
  BENCH_TRY(pair);
  row.value = static_cast<double>(bytes) / pair->ours / 1e9;
  row.baseline = static_cast<double>(bytes) / pair->theirs / 1e9;
  row.judged = row.value / row.baseline;
  row.note = "works; Orlop cuts such copies anyway";
  run.rows.push_back(row);
  return {};
}

}  // namespace orlop::gpu
