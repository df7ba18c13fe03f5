// SPDX-License-Identifier: Apache-2.0
// Internal to the kernels of room gpu: the terms of S (copy/checksum.h) on the device. Each source
// of kernels has a copy of the table of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/checksum.h"

namespace orlop::gpu {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kCellBytes = 16;
constexpr unsigned kCellsPerLane = kChecksumChunkBytes / (kCellBytes * kLanes);
static_assert(kCellsPerLane == 8);

struct alignas(16) Table {
  std::uint32_t word[kChecksumChunkWords];
};
constexpr Table make_table() {
  Table table{};
  constexpr auto words = make_checksum_table();
  for (std::size_t i = 0; i < kChecksumChunkWords; ++i) table.word[i] = words[i];
  return table;
}
__device__ constexpr Table kTable = make_table();

__device__ std::uint32_t chunk_key(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
static_assert(checksum_chunk_key(1) == [] {
  std::uint32_t x = 1;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}());

__device__ std::uint64_t pair_sum(std::uint32_t w0, std::uint32_t w1, std::uint32_t k0,
                                  std::uint32_t k1) {
  return static_cast<std::uint64_t>(w0 + k0) * (w1 + k1);
}

// What all lanes of a warp have together; right in lane 0.
__device__ std::uint64_t sum_of_warp(std::uint64_t sum) {
  for (unsigned o = kLanes / 2; o != 0; o /= 2) sum += __shfl_down_sync(~0u, sum, o);
  return sum;
}

}  // namespace
}  // namespace orlop::gpu
