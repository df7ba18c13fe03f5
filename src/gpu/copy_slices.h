// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: how a copy is cut into slices (what one slot of the staging ring takes) and
// a slice into copies for the copy engines. Pure: needs no CUDA.
//
// Thread: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

// Bytes [begin, end) of `count` values from `first` on.
struct Slice {
  std::uint32_t range = 0;  // of the request
  std::uint32_t first = 0, count = 0;
  std::uint64_t begin = 0, end = 0;

  std::uint64_t bytes() const { return count * (end - begin); }
  // Distance of two values in the stage, and where the first begins: 16-byte cells of a value lie
  // on 16-byte borders there.
  std::uint64_t lead() const { return begin % 16; }
  std::uint64_t pitch() const { return (lead() + end - begin + 15) / 16 * 16; }
  std::uint64_t stage_bytes() const { return count * pitch(); }
  bool operator==(const Slice&) const = default;
};

struct SliceLimits {
  std::uint64_t most_bytes = 32 << 20;  // of a slice in the stage
  std::uint64_t least_bytes = 2 << 20;  // of the short slices at the open end, see cut_slices()
  std::uint32_t most_values = 4096;
  std::uint32_t numbers_per_value = 1;  // page numbers
  std::uint32_t most_numbers = 8192;    // of a slice, as long as one value does not exceed them
};

// The strips of the request's ranges (all of the value when there are none), each beginning at a
// multiple of 8 bytes; a range without parts has the strip [0, 0).
// kInvalidArgument: ranges that overlap, or that cut a value at an offset that is no multiple of 8
// (a checksum cannot be split there).
Result<std::vector<CompiledLayout::Strip>> strips_of(const CompiledLayout& layout,
                                                     std::span<const LayerRange> ranges);

// Strip after strip, values in order. Values longer than a slice are cut at multiples of 4 KiB.
// Where kernel and link do not overlap slices are short: at the end of a restore (the last kernel
// runs after the last copy), at the begin of a backup.
std::vector<Slice> cut_slices(std::size_t values, std::span<const CompiledLayout::Strip> strips,
                              CopyDirection direction, const SliceLimits& limits);

// `rows` pieces of `bytes`, `host_pitch` apart in value memory and `stage_pitch` in the stage.
struct StripCopy {
  std::byte* host = nullptr;
  std::uint64_t stage = 0;  // offset in the slot
  std::uint64_t bytes = 0;
  std::uint64_t rows = 1;
  std::uint64_t host_pitch = 0, stage_pitch = 0;
};

// Bytes from an address on that one copy may take (host_registration.h).
using RunAt = std::function<std::uint64_t(const void*)>;

// Appends the copies of a slice: neighbours in memory become one, strips of values at equal
// distances one of many rows, no copy crosses a border of run_at. Requires: run_at is not 0 in any
// of the values.
void strip_copies(const Slice& slice, std::span<std::byte* const> values, const RunAt& run_at,
                  std::vector<StripCopy>& copies);

}  // namespace orlop::gpu
