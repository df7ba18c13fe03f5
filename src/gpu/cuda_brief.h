// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: the kernel for a few values between mapped value memory and the cache, when
// what counts is how soon it is done. Plain C++20: nvcc reads this too.
//
// Against cuda_move.h it saves what a short copy waits for: where each chunk lies travels with the
// launch, so nothing is read before the data; each warp has one chunk and stores its sum to the
// host itself; each block tells its end in a word of its own, so that no block waits for others
// (LaneProgress reads them). A page of 288 KiB: backups take 0.6 us less on the device, restores
// 2.3 us (H200, docs/benchmarks/gpu.md).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_launch.h"

namespace orlop::gpu {

inline constexpr unsigned kBriefThreads = 512;
inline constexpr unsigned kBriefChunksOfBlock = kBriefThreads / 32;
inline constexpr unsigned kBriefBlocks = 8;  // at most; their words share a cache line
inline constexpr std::uint32_t kBriefChunks = kBriefBlocks * kBriefChunksOfBlock;
inline constexpr std::uint32_t kBriefValues = 16;

struct BriefArguments {
  std::uint32_t count = 0;            // chunks of 4 KiB of all values, in order
  std::uint32_t chunks_of_value = 1;  // every value begins a new chunk and is of whole ones
  std::uint64_t* sums_out = nullptr;  // `count` words of pinned host memory: S of each chunk
  std::uint64_t* words = nullptr;     // kBriefBlocks words of pinned host memory: become ticket
  std::uint64_t ticket = 0;
  std::byte* values[kBriefValues] = {};  // 16-byte aligned, mapped host memory
  std::byte* chunks[kBriefChunks] = {};  // of the cache, 16-byte aligned
};
static_assert(sizeof(BriefArguments) < 4096, "limit of kernel parameters");

// restore: values -> cache; else cache -> values. Requires: blocks 1..kBriefBlocks, count <= blocks
// * kBriefChunksOfBlock, at most kBriefValues values. Error: of the launch.
cudaError_t launch_brief(const BriefArguments& arguments, bool restore, unsigned blocks,
                         KernelLauncher& launcher, cudaStream_t stream);

// As load_move_kernels().
cudaError_t load_brief_kernels();

}  // namespace orlop::gpu
