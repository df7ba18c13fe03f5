// SPDX-License-Identifier: Apache-2.0
// Internal to the GPU benchmark: memory on both sides, workloads and the stop watch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/compiled_layout.h"
#include "gpu/cuda_copier.h"
#include "gpu/cuda_resources.h"
#include "gpu/host_registration.h"
#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

// Value memory and cache of one direction, and a stream for plain copies between them.
struct BenchSide {
  std::span<std::byte> values;  // of the bed's segment
  DeviceMemory cache;
  Stream stream;
};

class BenchBed {
 public:
  static Result<std::unique_ptr<BenchBed>> make(int device, std::uint64_t side_bytes);
  ~BenchBed();
  BenchBed(const BenchBed&) = delete;
  BenchBed& operator=(const BenchBed&) = delete;

  BenchSide& side(CopyDirection direction) {
    return direction == CopyDirection::kRestore ? restore_ : backup_;
  }
  std::uint64_t side_bytes() const { return side_bytes_; }
  const HostRegistration& registration() const { return *registration_; }
  std::span<std::byte> segment() const { return segment_; }

 private:
  BenchBed() = default;
  std::uint64_t side_bytes_ = 0;
  std::span<std::byte> segment_;
  std::shared_ptr<HostRegistration> registration_;
  BenchSide restore_, backup_;
};

enum class BenchPlacement : std::uint8_t { kAdjacent, kRuns, kScattered };
std::string to_string(BenchPlacement placement);

// What the pages of a value look like.
struct BenchShape {
  std::string name;  // "4 KiB"
  std::uint32_t layers = 36;
  std::uint32_t parts = 2;  // a layer
  std::uint32_t heads = 1, tokens = 1;
  std::uint64_t row_bytes = 4096;
  ValueOrder order = ValueOrder::kHeadTokenChannel;
  std::uint64_t value_bytes() const {
    return std::uint64_t{layers} * parts * heads * tokens * row_bytes;
  }
};

// Some values of a shape on one side of the bed.
class BenchBatch {
 public:
  static Result<BenchBatch> make(BenchSide& side, CopyDirection direction, const BenchShape& shape,
                                 std::size_t values, BenchPlacement placement);
  CopyRequest request() const;
  // Of the layout on its own: others on the same memory.
  const CompiledLayout& layout() const { return *layout_; }
  std::uint64_t bytes() const { return values_.size() * layout_->value_len(); }
  std::span<std::byte* const> values() const { return values_; }
  std::vector<LayerRange> ranges(std::uint32_t count) const;

  // Copies and waits. Error: of the job.
  Result<void> run(PageCopier& copier, std::span<const LayerRange> ranges = {}) const;
  // Copies once and compares sums with the CPU's: of all values' bytes as they are in value memory.
  Result<void> check(PageCopier& copier) const;
  // One cudaMemcpyAsync of as many bytes, and waits.
  Result<void> plain_copy() const;
  Result<void> start_plain_copy() const;
  BenchSide& side() const { return *side_; }
  CopyDirection direction() const { return direction_; }

 private:
  BenchSide* side_ = nullptr;
  CopyDirection direction_{};
  std::unique_ptr<CompiledLayout> layout_;
  std::vector<std::byte*> values_;
  std::vector<std::int64_t> pages_;
  std::vector<std::span<const std::int64_t>> page_lists_;
};

Result<void> wait_for(CopyJob& job);  // by looking at done(): as cudaStreamSynchronize does

// Of alternating runs of `ours` and `theirs`, after one of each to warm up: medians in seconds, and
// the median of ours / theirs of neighbours, which a link in another mood disturbs less.
struct BenchPair {
  double ours = 0, theirs = 0;
  double ratio = 0;
  double ours_p99 = 0;
};
using Measured = std::function<Result<void>()>;
Result<BenchPair> measure_pairs(int pairs, const Measured& ours, const Measured& theirs);
Result<double> measure_median(int runs, const Measured& what);

#define BENCH_TRY(expression)                                 \
  do {                                                        \
    if (auto&& bench_tried = (expression); !bench_tried)      \
      return std::unexpected(std::move(bench_tried.error())); \
  } while (false)

}  // namespace orlop::gpu
