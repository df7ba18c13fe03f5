// SPDX-License-Identifier: Apache-2.0
#include "gpu/bench/bench_bed.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/rng.h"
#include "copy/checksum.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

constexpr int kFillThreads = 8;
constexpr std::size_t kRun = 16;  // of BenchPlacement::kRuns
// Values whose sums are compared; a wrong copy is wrong in all of them.
constexpr std::size_t kChecked = 24;

Result<std::span<std::byte>> map_segment(std::uint64_t bytes) {
  const int fd = memfd_create("orlop-gpu-bench", MFD_CLOEXEC);
  if (fd < 0) return fail(ErrorCode::kSystem, std::string("memfd_create: ") + strerror(errno));
  void* at = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  close(fd);
  if (at == MAP_FAILED) return fail(ErrorCode::kNoMemory, std::string("mmap: ") + strerror(error));
  return std::span(static_cast<std::byte*>(at), bytes);
}

// Never zeros: they hide what was not written, and links and memories like them.
void fill(std::span<std::byte> memory, std::uint64_t seed) {
  const std::size_t share = memory.size() / kFillThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kFillThreads; ++i) {
    threads.emplace_back(
        [part = memory.subspan(static_cast<std::size_t>(i) * share, share), seed, i] {
          Rng rng(seed + static_cast<std::uint64_t>(i));
          std::uint64_t state = rng.next();
          for (std::size_t at = 0; at + 8 <= part.size(); at += 8) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            std::memcpy(part.data() + at, &state, 8);
          }
        });
  }
  for (std::thread& thread : threads) thread.join();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Slots of value memory in the order in which values take them.
std::vector<std::size_t> slots(std::size_t values, BenchPlacement placement, Rng& rng) {
  std::vector<std::size_t> all(values);
  std::iota(all.begin(), all.end(), 0);
  if (placement == BenchPlacement::kScattered) std::ranges::shuffle(all, rng);
  if (placement == BenchPlacement::kRuns) {
    std::vector<std::size_t> runs(values / kRun);
    std::iota(runs.begin(), runs.end(), 0);
    std::ranges::shuffle(runs, rng);
    for (std::size_t i = 0; i < runs.size() * kRun; ++i) {
      all[i] = runs[i / kRun] * kRun + i % kRun;
    }
  }
  return all;
}

KvLayout layout_of(const BenchShape& shape, std::uint64_t base, std::uint64_t pages) {
  KvLayout layout;
  layout.order = shape.order;
  const std::uint64_t page = std::uint64_t{shape.heads} * shape.tokens * shape.row_bytes;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (std::uint32_t i = 0; i < shape.parts; ++i) {
      layout.parts.push_back(
          {.name = "layers." + std::to_string(layer),
           .layer = layer,
           .base = base + (std::uint64_t{layer} * shape.parts + i) * pages * page,
           .pages = pages,
           .page_stride = page,
           .heads = shape.heads,
           .head_stride = shape.row_bytes,
           .tokens = shape.tokens,
           .token_stride = shape.heads * shape.row_bytes,
           .row_bytes = shape.row_bytes});
    }
  }
  return layout;
}

// One cudaMemcpyAsync of the first `bytes` of a side, but for the borders of registrations: CUDA
// refuses a copy that crosses one ("invalid argument", driver 580).
Result<void> copy_side(const BenchSide& side, CopyDirection direction, std::uint64_t bytes) {
  const bool restore = direction == CopyDirection::kRestore;
  const auto chunks = registered_chunks();
  for (std::uint64_t done = 0; done < bytes;) {
    std::byte* const value = side.values.data() + done;
    std::byte* const cache = side.cache.get() + done;
    const std::uint64_t step = std::min(bytes - done, chunks->run_at(value));
    if (step == 0) return fail(ErrorCode::kSystem, "the bench's value memory is not registered");
    ORLOP_CUDA(cudaMemcpyAsync, restore ? cache : value, restore ? value : cache, step,
               restore ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, side.stream.get());
    done += step;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<BenchBed>> BenchBed::make(int device, std::uint64_t side_bytes) {
  ORLOP_CUDA(cudaSetDevice, device);
  std::unique_ptr<BenchBed> bed(new BenchBed);
  bed->side_bytes_ = side_bytes;
  auto segment = map_segment(2 * side_bytes);
  BENCH_TRY(segment);
  bed->segment_ = *segment;
  fill(bed->segment_, 1);
  auto registration = HostRegistration::register_memory(bed->segment_, device);
  BENCH_TRY(registration);
  bed->registration_ = *registration;
  bed->restore_.values = bed->segment_.first(side_bytes);
  bed->backup_.values = bed->segment_.last(side_bytes);
  for (BenchSide* side : {&bed->restore_, &bed->backup_}) {
    auto cache = make_device_memory(side_bytes);
    BENCH_TRY(cache);
    side->cache = std::move(*cache);
    auto stream = make_stream(false);
    BENCH_TRY(stream);
    side->stream = std::move(*stream);
    BENCH_TRY(copy_side(*side, CopyDirection::kRestore, side_bytes));
    ORLOP_CUDA(cudaStreamSynchronize, side->stream.get());
  }
  return bed;
}

BenchBed::~BenchBed() {
  registration_.reset();
  if (!segment_.empty()) munmap(segment_.data(), segment_.size());
}

std::string to_string(BenchPlacement placement) {
  switch (placement) {
    case BenchPlacement::kAdjacent:
      return "adjacent";
    case BenchPlacement::kRuns:
      return "runs of 16";
    case BenchPlacement::kScattered:
      return "scattered";
  }
  return "";
}

Result<BenchBatch> BenchBatch::make(BenchSide& side, CopyDirection direction,
                                    const BenchShape& shape, std::size_t values,
                                    BenchPlacement placement) {
  BenchBatch batch;
  batch.side_ = &side;
  batch.direction_ = direction;
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(side.cache.get());
  auto layout = CompiledLayout::compile(layout_of(shape, base, values), shape.value_bytes());
  BENCH_TRY(layout);
  batch.layout_ = std::make_unique<CompiledLayout>(std::move(*layout));
  Rng rng(values);
  for (const std::size_t slot : slots(values, placement, rng)) {
    batch.values_.push_back(side.values.data() + slot * shape.value_bytes());
  }
  batch.pages_.resize(values);
  std::iota(batch.pages_.begin(), batch.pages_.end(), 0);
  std::ranges::shuffle(batch.pages_, rng);
  batch.page_lists_.emplace_back(batch.pages_);
  return batch;
}

CopyRequest BenchBatch::request() const {
  return {.direction = direction_,
          .layout = layout_.get(),
          .values = values_,
          .pages = page_lists_,
          .ranges = {},
          .stream = nullptr};
}

std::vector<LayerRange> BenchBatch::ranges(std::uint32_t count) const {
  std::vector<LayerRange> ranges;
  const std::uint32_t layers = layout_->layers();
  for (std::uint32_t i = 0; i < count; ++i) {
    ranges.push_back({i * layers / count, (i + 1) * layers / count});
  }
  return ranges;
}

Result<void> BenchBatch::run(PageCopier& copier, std::span<const LayerRange> ranges) const {
  CopyRequest what = request();
  what.ranges = ranges;
  auto job = copier.submit(what);
  BENCH_TRY(job);
  return wait_for(**job);
}

Result<void> BenchBatch::check(PageCopier& copier) const {
  auto job = copier.submit(request());
  BENCH_TRY(job);
  BENCH_TRY(wait_for(**job));
  const std::size_t step = std::max<std::size_t>(values_.size() / kChecked, 1);
  for (std::size_t i = 0; i < values_.size(); i += step) {
    const std::uint64_t right = raw_sum({values_[i], layout_->value_len()});
    if ((*job)->raw_sums()[i] != right) {
      return fail(ErrorCode::kCorrupt, "value " + std::to_string(i) + " of " +
                                           std::to_string(values_.size()) +
                                           " has another sum on the GPU than on the CPU");
    }
  }
  return {};
}

Result<void> BenchBatch::start_plain_copy() const {
  return copy_side(*side_, direction_, bytes());
}

Result<void> BenchBatch::plain_copy() const {
  BENCH_TRY(start_plain_copy());
  ORLOP_CUDA(cudaStreamSynchronize, side_->stream.get());
  return {};
}

Result<void> wait_for(CopyJob& job) {
  const auto start = std::chrono::steady_clock::now();
  while (!job.done()) {
    _mm_pause();
    if (seconds_since(start) > 20) {
      return fail(ErrorCode::kDeadline, "a copy did not end within 20 s");
    }
  }
  return job.result();
}

Result<BenchPair> measure_pairs(int pairs, const Measured& ours, const Measured& theirs) {
  BENCH_TRY(ours());
  BENCH_TRY(theirs());
  std::vector<double> us, them, ratios;
  for (int i = 0; i < pairs; ++i) {
    auto start = std::chrono::steady_clock::now();
    BENCH_TRY(theirs());
    them.push_back(seconds_since(start));
    start = std::chrono::steady_clock::now();
    BENCH_TRY(ours());
    us.push_back(seconds_since(start));
    ratios.push_back(us.back() / them.back());
  }
  BenchPair pair{.ours = median(us), .theirs = median(them), .ratio = median(ratios)};
  pair.ours_p99 = us[us.size() * 99 / 100];
  return pair;
}

Result<double> measure_median(int runs, const Measured& what) {
  BENCH_TRY(what());
  std::vector<double> took;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    BENCH_TRY(what());
    took.push_back(seconds_since(start));
  }
  return median(took);
}

}  // namespace orlop::gpu
