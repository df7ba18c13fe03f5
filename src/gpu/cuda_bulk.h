// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: the kernel of cuda_move.h once more, for staging memory and long rows, made
// to leave its multiprocessors soon.
//
// What runs beside copies gets these multiprocessors back the sooner, and products of matrices
// leave some idle at their end for about as long as a slice takes here (docs/benchmarks/gpu.md).
// Bytes do not pass through registers: bulk copies (compute capability 9.0) bring a checksum chunk
// into shared memory and take it from there, and a warp sums what lies there meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/cuda_move.h"

namespace orlop::gpu {

// Rows of the cache must have so many bytes: a chunk is then of two rows at most.
inline constexpr std::uint64_t kLeastBulkRow = 4096;
// Page numbers of a slice; they lie in shared memory.
inline constexpr std::uint32_t kMostBulkNumbers = 4096;

// Whether the kernel takes these: there is a stage, page numbers are not too many, the strip begins
// and ends at multiples of 16 bytes. Requires, beyond that: unit 16, rows of kLeastBulkRow.
bool bulk_takes(const MoveArguments& arguments);

// As launch_move(), for kScatter and kGather. Requires: bulk_takes(), load_bulk_kernels() said that
// they are there.
cudaError_t launch_bulk(const MoveArguments& arguments, MoveKind kind, unsigned blocks,
                        KernelLauncher& launcher, cudaStream_t stream);

// Loads the kernels' code now. *there: this device has bulk copies.
cudaError_t load_bulk_kernels(bool* there);

}  // namespace orlop::gpu
