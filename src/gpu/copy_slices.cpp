// SPDX-License-Identifier: Apache-2.0
#include "gpu/copy_slices.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "copy/checksum.h"

namespace orlop::gpu {
namespace {

// From so many rows on one copy of rows is taken instead of a batch: pieces of 4 KiB in batches
// cost 0.45 to 0.64 us each (docs/benchmarks/gpu.md, cudaMemcpyBatchAsync), a copy of rows one
// call.
constexpr std::uint64_t kLeastRows = 8;
// cudaMemcpy2D takes pitches below 2^31.
constexpr std::uint64_t kMostPitch = (std::uint64_t{1} << 31) - 1;

std::uint64_t total_bytes(std::size_t values, std::span<const CompiledLayout::Strip> strips) {
  std::uint64_t bytes = 0;
  for (const CompiledLayout::Strip& strip : strips) bytes += strip.end - strip.begin;
  return bytes * values;
}

// How many bytes the next slice may have. At the open end a slice is kFaster times as long as all
// that its kernel has for company on the link: kernels move bytes more than twice as fast as links
// (docs/benchmarks/gpu.md), so none holds up the next, and there are few slices.
class SliceSize {
 public:
  SliceSize(CopyDirection direction, std::uint64_t total, const SliceLimits& limits)
      : direction_(direction), left_(total), limits_(limits) {}
  std::uint64_t next() const {
    const std::uint64_t open =
        direction_ == CopyDirection::kRestore ? left_ / (kFaster + 1) * kFaster : done_ * kFaster;
    return std::clamp(open, std::min(limits_.least_bytes, limits_.most_bytes), limits_.most_bytes);
  }
  void took(std::uint64_t bytes) {
    done_ += bytes;
    left_ -= bytes;
  }

 private:
  static constexpr std::uint64_t kFaster = 2;
  CopyDirection direction_;
  std::uint64_t done_ = 0, left_;
  const SliceLimits& limits_;
};

// One value that is longer than a slice.
void cut_value(Slice slice, SliceSize& size, std::vector<Slice>& slices) {
  const std::uint64_t end = slice.end;
  while (slice.begin < end) {
    // Room for the lead; then down to a border of checksum chunks, but past the begin.
    const std::uint64_t reach = slice.begin + size.next() - 16;
    const std::uint64_t border = reach / kChecksumChunkBytes * kChecksumChunkBytes;
    slice.end =
        std::min(end, std::max(border, slice.begin / kChecksumChunkBytes * kChecksumChunkBytes +
                                           kChecksumChunkBytes));
    slices.push_back(slice);
    size.took(slice.bytes());
    slice.begin = slice.end;
  }
}

std::uint32_t values_at_once(const Slice& slice, std::uint64_t most_bytes,
                             const SliceLimits& limits) {
  std::uint64_t count = most_bytes / slice.pitch();
  count = std::min<std::uint64_t>(count, limits.most_values);
  if (limits.numbers_per_value > 0) {
    count = std::min<std::uint64_t>(count, limits.most_numbers / limits.numbers_per_value);
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(count, 1));
}

}  // namespace

Result<std::vector<CompiledLayout::Strip>> strips_of(const CompiledLayout& layout,
                                                     std::span<const LayerRange> ranges) {
  std::vector<CompiledLayout::Strip> strips;
  if (ranges.empty()) {
    strips.push_back({0, layout.value_len()});
    return strips;
  }
  for (const LayerRange& range : ranges) {
    const Result<CompiledLayout::Strip> found = layout.strip(range);
    if (!found) return std::unexpected(found.error());
    CompiledLayout::Strip strip = *found;
    if (strip.begin == strip.end) strip = {};  // cuts nothing, wherever it lies
    for (const std::uint64_t edge : {strip.begin, strip.end}) {
      if (edge % 8 != 0 && edge != layout.value_len()) {
        return fail(ErrorCode::kInvalidArgument,
                    "layers " + std::to_string(range.first) + " to " + std::to_string(range.end) +
                        " end at byte " + std::to_string(edge) +
                        " of the value, no multiple of 8: copy all layers in one range");
      }
    }
    strips.push_back(strip);
  }
  // Ranges and not strips: a range without parts has an empty strip that begins where another does.
  std::vector<LayerRange> sorted(ranges.begin(), ranges.end());
  std::ranges::sort(sorted, {}, &LayerRange::first);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].first < sorted[i - 1].end) {
      return fail(ErrorCode::kInvalidArgument, "layer ranges overlap; each layer goes once");
    }
  }
  return strips;
}

std::vector<Slice> cut_slices(std::size_t values, std::span<const CompiledLayout::Strip> strips,
                              CopyDirection direction, const SliceLimits& limits) {
  CHECK(limits.most_bytes >= 2 * kChecksumChunkBytes, "a slice holds a checksum chunk");
  std::vector<Slice> slices;
  SliceSize size(direction, total_bytes(values, strips), limits);
  for (std::size_t range = 0; range < strips.size(); ++range) {
    Slice slice{.range = static_cast<std::uint32_t>(range),
                .begin = strips[range].begin,
                .end = strips[range].end};
    if (slice.begin == slice.end) continue;
    while (slice.first < values) {
      if (slice.pitch() > limits.most_bytes) {
        slice.count = 1;
        cut_value(slice, size, slices);
      } else {
        slice.count = std::min(values_at_once(slice, size.next(), limits),
                               static_cast<std::uint32_t>(values - slice.first));
        slices.push_back(slice);
        size.took(slice.bytes());
      }
      slice.first += slice.count;
    }
  }
  return slices;
}

namespace {

// A run of values at one distance from each other: from `i` on, how many.
std::uint64_t run_length(std::span<std::byte* const> values, std::size_t i, std::uint64_t most,
                         std::uint64_t distance) {
  std::uint64_t n = 1;
  while (n < most && static_cast<std::uint64_t>(values[i + n] - values[i + n - 1]) == distance) ++n;
  return n;
}

// Adjacent bytes, cut at the borders.
void add_bytes(std::byte* host, std::uint64_t stage, std::uint64_t bytes, const RunAt& run_at,
               std::vector<StripCopy>& copies) {
  while (bytes > 0) {
    const std::uint64_t piece = std::min(bytes, run_at(host));
    CHECK(piece > 0, "value memory is registered");
    copies.push_back({.host = host, .stage = stage, .bytes = piece});
    host += piece;
    stage += piece;
    bytes -= piece;
  }
}

}  // namespace

void strip_copies(const Slice& slice, std::span<std::byte* const> values, const RunAt& run_at,
                  std::vector<StripCopy>& copies) {
  const std::uint64_t bytes = slice.end - slice.begin;
  const std::uint64_t pitch = slice.pitch();
  for (std::uint64_t i = 0; i < slice.count;) {
    const std::size_t value = slice.first + i;
    std::byte* const host = values[value] + slice.begin;
    const std::uint64_t stage = i * pitch + slice.lead();
    const std::uint64_t distance =
        i + 1 < slice.count ? static_cast<std::uint64_t>(values[value + 1] - values[value]) : 0;
    const bool apart = distance >= bytes && distance <= kMostPitch;  // else no rows: no look ahead
    const std::uint64_t run = apart ? run_length(values, value, slice.count - i, distance) : 1;
    if (apart && distance == bytes && pitch == bytes) {
      add_bytes(host, stage, run * bytes, run_at, copies);
      i += run;
      continue;
    }
    // Rows whose bytes all lie before the next border.
    const std::uint64_t before = run_at(host);
    std::uint64_t rows = 1;
    if (apart && before >= bytes) rows = std::min(run, (before - bytes) / distance + 1);
    if (rows >= kLeastRows) {
      copies.push_back({.host = host,
                        .stage = stage,
                        .bytes = bytes,
                        .rows = rows,
                        .host_pitch = distance,
                        .stage_pitch = pitch});
    } else {
      rows = 1;
      add_bytes(host, stage, bytes, run_at, copies);
    }
    i += rows;
  }
}

}  // namespace orlop::gpu
