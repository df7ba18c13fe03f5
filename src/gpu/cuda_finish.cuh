// SPDX-License-Identifier: Apache-2.0
// Internal to the kernels of room gpu: how a kernel of several blocks tells that it is done.
#pragma once

#include <cstdint>

#include "gpu/cuda_move.h"

namespace orlop::gpu {
namespace {

// The last block to end stores what all summed, leaves zeros for the next kernel, raises the flag.
// Fences are cumulative: a block's fence orders what its other threads stored before the barrier,
// and the last block's fence for the host what it has seen of all blocks, their stores to the host
// too.
__device__ void finish(const MoveArguments& a) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(a.arrived, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  for (std::uint32_t i = threadIdx.x; i < a.count; i += blockDim.x) {
    a.sums_out[i] = atomicExch(a.sums + i, 0ull);
  }
  if (threadIdx.x == 0) *a.arrived = 0;
  if (a.flag == nullptr) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *reinterpret_cast<volatile std::uint64_t*>(a.flag) = a.ticket;
  }
}

}  // namespace
}  // namespace orlop::gpu
