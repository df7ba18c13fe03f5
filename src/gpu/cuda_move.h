// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: the kernel that moves strips of values between value memory (or a staging
// buffer) and a paged cache, and sums S of them. Plain C++20: nvcc reads this too.
//
// A warp takes one checksum chunk (4 KiB of a value) at a time: one 16-byte cell per lane, 8 of
// them in flight. It reads every byte once, so the bytes written are the bytes summed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/cuda_launch.h"

namespace orlop::gpu {

// n / divisor for n < 2^31 by one multiplication (Granlund and Montgomery 1994).
struct FastDivision {
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;
  static constexpr FastDivision by(std::uint32_t divisor) {  // 1..2^31
    std::uint32_t shift = 0;
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    const std::uint64_t excess = (std::uint64_t{1} << shift) - divisor;
    return {static_cast<std::uint32_t>((excess << 32) / divisor + 1), shift};
  }
};

// A CompiledPart in the form that the kernel wants. Row number within the part:
// (third * second + i2) * first + i1; which of the three counts heads, pages of the value and
// tokens depends on the value's order.
struct DevicePart {
  std::uint64_t base = 0, page_stride = 0, head_stride = 0, token_stride = 0;
  std::uint32_t begin = 0, end = 0;  // bytes of the value
  std::uint32_t row_bytes = 0, first = 1, second = 1;
  std::uint32_t pool_first = 0;  // where the pool's numbers begin among those of one value
  FastDivision by_row, by_first, by_second;
};
static_assert(std::is_trivially_copyable_v<DevicePart>);

// Offsets inside a value are 31 bits in the kernel.
inline constexpr std::uint64_t kMostDeviceValueBytes = (std::uint64_t{1} << 31) - 4096;
inline constexpr unsigned kMoveThreads = 512;
inline constexpr unsigned kMostMoveBlocks = 32;
// Page numbers and addresses of values that travel with the launch: a short batch then needs no
// read of host memory before its first load.
inline constexpr std::uint32_t kInlineNumbers = 64;
inline constexpr std::uint32_t kInlineValues = 16;
// What a block keeps in shared memory of longer batches.
inline constexpr std::uint32_t kSharedNumbers = 8192;
inline constexpr std::uint32_t kSharedValues = 1024;

enum class MoveKind : std::uint8_t {
  kScatter,  // value side -> cache
  kGather,   // cache -> value side
  kSumOnly,  // reads the cache, sums; writes nothing
};

struct MoveArguments {
  const DevicePart* parts = nullptr;             // device memory
  const std::uint32_t* part_of_chunk = nullptr;  // part that holds byte 4096 * i of the value
  // All parts have the same number of whole chunks: a division finds the part, without a load.
  bool equal_parts = false;
  FastDivision by_chunks_of_part;
  // Bytes [begin, end) of `count` values.
  std::uint32_t begin = 0, end = 0, count = 0;
  FastDivision by_chunks;  // by the chunks that [begin, end) touches
  std::uint32_t numbers_per_value = 0;
  // Value side. stage: byte o of value i at stage + i * pitch + o - begin, and 16-byte cells of the
  // value lie on 16-byte borders. Null: at value_addresses[i] + o (16-byte aligned, mapped host
  // memory).
  std::byte* stage = nullptr;
  std::uint64_t pitch = 0;
  std::byte* const* value_addresses = nullptr;  // mapped host memory; null: inline
  const std::uint32_t* numbers = nullptr;       // value after value; mapped; null: inline
  bool token_first = false;
  // count words each: sums accumulate in device memory (zero before and after the kernel) and are
  // stored into pinned host memory by the last block. Then flag becomes ticket, if there is one.
  unsigned long long* sums = nullptr;
  unsigned int* arrived = nullptr;  // blocks that ended; zero before and after
  std::uint64_t* sums_out = nullptr;
  std::uint64_t* flag = nullptr;
  std::uint64_t ticket = 0;
  std::uint32_t inline_numbers[kInlineNumbers] = {};
  std::byte* inline_values[kInlineValues] = {};
};
static_assert(sizeof(MoveArguments) < 4096, "limit of kernel parameters");

// unit: 16, 8, 4 or 1: bytes that stay together in the cache and are aligned there (1 stands for 1
// and 2). Requires: numbers_per_value * count <= kSharedNumbers or numbers are read in place;
// count <= kSharedValues when value_addresses is used. Error: of the launch.
cudaError_t launch_move(const MoveArguments& arguments, MoveKind kind, unsigned unit,
                        unsigned blocks, KernelLauncher& launcher, cudaStream_t stream);

// Loads the kernels' code now, so that the first copy need not. Error: no code for this device.
cudaError_t load_move_kernels();

}  // namespace orlop::gpu
