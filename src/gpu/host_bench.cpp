// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_bench.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/rng.h"
#include "base/units.h"
#include "copy/bench_memory.h"
#include "copy/checksum.h"
#include "gpu/host_copier.h"
#include "gpu/page_copier.h"

namespace orlop::gpu {
namespace {

constexpr std::uint32_t kLayers = 36;
constexpr std::uint32_t kParts = 2 * kLayers;
constexpr std::uint64_t kLargestPiece = 128 * kKiB;
// Long enough for every threshold of room copy, short enough that a busy machine leaves one of a
// few turns alone.
constexpr std::uint64_t kSliceBytes = 64 * kMiB;

struct Shape {
  std::uint64_t row_bytes;
  std::uint32_t heads = 1, tokens = 1;  // tokens before heads in the cache
  ValueOrder order = ValueOrder::kHeadTokenChannel;

  std::uint64_t piece_bytes() const { return row_bytes * heads * tokens; }
};

// Values of one shape over the whole of both memories; pages in a random order.
class Batch {
 public:
  Batch(std::byte* cache, std::byte* values, std::size_t bytes, const Shape& shape)
      : shape_(shape), cache_(cache) {
    const std::uint64_t value_bytes = kParts * shape.piece_bytes();
    count_ = bytes / value_bytes;
    for (std::size_t i = 0; i < count_; ++i) {
      values_.push_back(values + i * value_bytes);
      pages_.push_back(static_cast<std::int64_t>(i));
    }
    Rng rng(1);
    std::ranges::shuffle(pages_, rng);
  }

  Result<void> compile() {
    KvLayout layout;
    layout.order = shape_.order;
    for (std::uint32_t i = 0; i < kParts; ++i) {
      layout.parts.push_back({.name = "part " + std::to_string(i),
                              .layer = i / 2,
                              .base = reinterpret_cast<std::uint64_t>(part(i)),
                              .pages = count_,
                              .page_stride = shape_.piece_bytes(),
                              .heads = shape_.heads,
                              .head_stride = shape_.row_bytes,
                              .tokens = shape_.tokens,
                              .token_stride = shape_.heads * shape_.row_bytes,
                              .row_bytes = shape_.row_bytes});
    }
    auto compiled = CompiledLayout::compile(layout, kParts * shape_.piece_bytes());
    if (!compiled) return std::unexpected(std::move(compiled.error()));
    layout_ = std::make_unique<CompiledLayout>(*std::move(compiled));
    return {};
  }

  std::uint64_t bytes() const { return count_ * kParts * shape_.piece_bytes(); }

  std::size_t slices() const { return div_ceil(count_, slice_values()); }

  Result<void> copy(PageCopier& copier, CopyDirection direction, std::size_t slice) const {
    const auto [first, count] = values_of(slice);
    const std::span<const std::int64_t> pages = std::span(pages_).subspan(first, count);
    const CopyRequest request{.direction = direction,
                              .layout = layout_.get(),
                              .values = std::span(values_).subspan(first, count),
                              .pages = std::span(&pages, 1)};
    auto job = copier.submit(request);
    if (!job) return std::unexpected(std::move(job.error()));
    while (!(*job)->wait(std::chrono::hours(1))) {
    }
    if (Result<void> result = (*job)->result(); !result) return result;
    if ((*job)->raw_sums()[0] != raw_sum({values_[first], layout_->value_len()})) {
      return fail(ErrorCode::kCorrupt, "host engine: the sum of a value is wrong");
    }
    return {};
  }

  void copy_by_memcpy(CopyDirection direction, std::size_t slice) const {
    const auto [first, count] = values_of(slice);
    const std::uint64_t piece = shape_.piece_bytes();
    for (std::size_t i = first; i < first + count; ++i) {
      for (std::uint32_t p = 0; p < kParts; ++p) {
        std::byte* in_value = values_[i] + p * piece;
        std::byte* in_cache = part(p) + static_cast<std::uint64_t>(pages_[i]) * piece;
        if (direction == CopyDirection::kBackup) std::swap(in_value, in_cache);
        std::memcpy(in_cache, in_value, piece);
        asm volatile("" : : "r"(in_cache) : "memory");  // the copy has to happen
      }
    }
  }

 private:
  std::size_t slice_values() const {
    return std::max<std::size_t>(1, kSliceBytes / (kParts * shape_.piece_bytes()));
  }
  // First value and number of values.
  std::pair<std::size_t, std::size_t> values_of(std::size_t slice) const {
    const std::size_t first = slice * slice_values();
    return {first, std::min(slice_values(), count_ - first)};
  }
  std::byte* part(std::uint32_t i) const { return cache_ + i * count_ * shape_.piece_bytes(); }

  Shape shape_;
  std::byte* cache_;
  std::size_t count_ = 0;
  std::vector<std::byte*> values_;
  std::vector<std::int64_t> pages_;
  std::unique_ptr<CompiledLayout> layout_;
};

// Of the process's processors: what others do on this machine does not count. Nothing else runs
// here while a copy does.
class Seconds {
 public:
  double take() const { return now() - start_; }

 private:
  static double now() {
    timespec time = {};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  double start_ = now();
};

const char* name_of(CopyDirection direction) {
  return direction == CopyDirection::kBackup ? "backup" : "restore";
}

// Goes through all slices; keeps the best time of each.
template <class Copy>
Result<void> go_through(std::vector<double>& best, Copy copy) {
  for (std::size_t slice = 0; slice < best.size(); ++slice) {
    const Seconds seconds;
    if (Result<void> done = copy(slice); !done) return done;
    const double took = seconds.take();
    if (best[slice] == 0 || took < best[slice]) best[slice] = took;
  }
  return {};
}

// ours and theirs take turns, so that no slice is in any cache when its turn comes.
template <class Ours, class Theirs>
Result<HostBenchRow> measure(std::string name, const Batch& batch, int rounds, Ours ours,
                             Theirs theirs) {
  std::vector<double> best_of_ours(batch.slices());
  std::vector<double> best_of_theirs(batch.slices());
  for (int round = 0; round < rounds; ++round) {
    if (auto done = go_through(best_of_theirs, theirs); !done) return std::unexpected(done.error());
    if (auto done = go_through(best_of_ours, ours); !done) return std::unexpected(done.error());
  }
  const auto speed = [&](const std::vector<double>& best) {
    return static_cast<double>(batch.bytes()) / std::reduce(best.begin(), best.end()) / 1e9;
  };
  HostBenchRow row;
  row.name = std::move(name);
  row.gb_s = speed(best_of_ours);
  row.baseline_gb_s = speed(best_of_theirs);
  row.ratio = row.gb_s / row.baseline_gb_s;
  return row;
}

struct Bed {
  const HostBenchOptions& options;
  BenchMemory cache, values;
  std::unique_ptr<PageCopier> copier;

  Result<Batch> batch(const Shape& shape) {
    Batch made(cache.data(), values.data(), options.working_set_bytes, shape);
    if (Result<void> compiled = made.compile(); !compiled) {
      return std::unexpected(std::move(compiled.error()));
    }
    return made;
  }
};

Result<HostBenchRow> measure_pieces(Bed& bed, CopyDirection direction, std::uint64_t piece_bytes) {
  const Result<Batch> batch = bed.batch({.row_bytes = piece_bytes});
  if (!batch) return std::unexpected(batch.error());
  const std::string name = std::string("host ") + name_of(direction) + " " +
                           format_bytes(piece_bytes) + " pieces against memcpy";
  bed.options.progress(name);
  auto row = measure(
      name, *batch, bed.options.rounds,
      [&](std::size_t slice) { return batch->copy(*bed.copier, direction, slice); },
      [&](std::size_t slice) -> Result<void> {
        batch->copy_by_memcpy(direction, slice);
        return {};
      });
  if (row) row->bar = kHostBar;
  return row;
}

// A cache [token, head, channel] of 8 heads of 128 bf16: 16 tokens are 32 KiB.
Result<HostBenchRow> measure_order(Bed& bed, CopyDirection direction) {
  Shape shape{.row_bytes = 256, .heads = 8, .tokens = 16};
  const Result<Batch> canonical = bed.batch(shape);
  if (!canonical) return std::unexpected(canonical.error());
  shape.order = ValueOrder::kTokenHeadChannel;
  const Result<Batch> token_first = bed.batch(shape);
  if (!token_first) return std::unexpected(token_first.error());
  const std::string name = std::string("host ") + name_of(direction) +
                           " head-first out of token-first cache, against token-first values";
  bed.options.progress(name);
  return measure(
      name, *canonical, bed.options.rounds,
      [&](std::size_t slice) { return canonical->copy(*bed.copier, direction, slice); },
      [&](std::size_t slice) { return token_first->copy(*bed.copier, direction, slice); });
}

}  // namespace

Result<std::vector<HostBenchRow>> run_host_bench(const HostBenchOptions& options) {
  if (options.rounds < 1 || options.working_set_bytes < kParts * kLargestPiece) {
    return fail(ErrorCode::kInvalidArgument,
                "host bench: at least one round and a working set of " +
                    format_bytes(kParts * kLargestPiece) + " (one value)");
  }
  Result<BenchMemory> cache = BenchMemory::create(options.working_set_bytes, false);
  if (!cache) return std::unexpected(cache.error());
  Result<BenchMemory> values = BenchMemory::create(options.working_set_bytes, true);
  if (!values) return std::unexpected(values.error());
  Bed bed{options, *std::move(cache), *std::move(values), make_host_copier({.share = false})};
  std::vector<HostBenchRow> rows;
  for (const CopyDirection direction : {CopyDirection::kRestore, CopyDirection::kBackup}) {
    for (const std::uint64_t piece : {4 * kKiB, 16 * kKiB, 32 * kKiB, kLargestPiece}) {
      auto row = measure_pieces(bed, direction, piece);
      if (!row) return std::unexpected(std::move(row.error()));
      rows.push_back(*std::move(row));
    }
    auto row = measure_order(bed, direction);
    if (!row) return std::unexpected(std::move(row.error()));
    rows.push_back(*std::move(row));
  }
  return rows;
}

}  // namespace orlop::gpu
