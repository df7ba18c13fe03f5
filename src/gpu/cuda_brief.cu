// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_brief.h"
#include "gpu/cuda_checksum.cuh"

namespace orlop::gpu {
namespace {

// The warp's chunk; all loads are under way before the first store. S of it in lane 0.
template <bool kRestore>
__device__ std::uint64_t move_chunk(const BriefArguments& a, std::uint32_t index) {
  const unsigned lane = threadIdx.x % kLanes;
  const std::uint32_t value = index / a.chunks_of_value;
  const std::uint32_t chunk = index - value * a.chunks_of_value;
  std::byte* const value_side =
      a.values[value] + static_cast<std::size_t>(chunk) * kChecksumChunkBytes;
  auto* const in_value = reinterpret_cast<uint4*>(value_side) + lane;
  auto* const in_cache = reinterpret_cast<uint4*>(a.chunks[index]) + lane;
  const uint4* const from = kRestore ? in_value : in_cache;
  uint4* const to = kRestore ? in_cache : in_value;
  uint4 cell[kCellsPerLane];
#pragma unroll
  for (unsigned u = 0; u < kCellsPerLane; ++u) cell[u] = __ldcs(from + u * kLanes);
  const auto* const table = reinterpret_cast<const uint4*>(kTable.word) + lane;
  uint4 key[kCellsPerLane];
#pragma unroll
  for (unsigned u = 0; u < kCellsPerLane; ++u) key[u] = table[u * kLanes];
#pragma unroll
  for (unsigned u = 0; u < kCellsPerLane; ++u) __stcs(to + u * kLanes, cell[u]);
  const std::uint32_t h = chunk_key(chunk);
  std::uint64_t sum = 0;
#pragma unroll
  for (unsigned u = 0; u < kCellsPerLane; ++u) {
    sum += pair_sum(cell[u].x, cell[u].y, key[u].x + h, key[u].y + h);
    sum += pair_sum(cell[u].z, cell[u].w, key[u].z + h, key[u].w + h);
  }
  return sum_of_warp(sum);
}

template <bool kRestore>
__global__ void __launch_bounds__(kBriefThreads)
    move_brief(const __grid_constant__ BriefArguments a) {
  // Blocks take neighbours in turn: a short batch is spread over all of them.
  const std::uint32_t index = threadIdx.x / kLanes * gridDim.x + blockIdx.x;
  if (index < a.count) {
    const std::uint64_t sum = move_chunk<kRestore>(a, index);
    if (threadIdx.x % kLanes == 0) a.sums_out[index] = sum;
  }
  // The barrier orders what the block's threads stored before the fence, the fence before the word:
  // fences are cumulative.
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence_system();
  for (unsigned word = blockIdx.x; word < kBriefBlocks; word += gridDim.x) {
    *reinterpret_cast<volatile std::uint64_t*>(a.words + word) = a.ticket;
  }
}

const void* kernel_of(bool restore) {
  return restore ? reinterpret_cast<const void*>(move_brief<true>)
                 : reinterpret_cast<const void*>(move_brief<false>);
}

}  // namespace

cudaError_t launch_brief(const BriefArguments& arguments, bool restore, unsigned blocks,
                         KernelLauncher& launcher, cudaStream_t stream) {
  BriefArguments copy = arguments;
  void* parameters[] = {&copy};
  return launcher.launch(kernel_of(restore), {blocks, kBriefThreads, 0}, parameters, stream);
}

cudaError_t load_brief_kernels() {
  for (const bool restore : {false, true}) {
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel_of(restore));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace orlop::gpu
