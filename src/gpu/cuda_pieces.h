// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: the adjacent pieces of a slice in value memory and in the cache, for copy
// engines that move pieces. Thread: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpu/cuda_job.h"

namespace orlop::gpu {

// Pieces in the order of the value, as long as both sides are adjacent and no registration ends.
void for_each_piece(const CudaJobParts& job, const Slice& slice,
                    const std::function<void(std::byte* in_value, std::byte* in_cache,
                                             std::uint64_t bytes)>& piece);

// Of one whole value, before neighbours are merged.
std::uint64_t rows_per_value(const CompiledLayout& layout);
// The rows' length that most bytes of a value have at least.
std::uint64_t typical_row_bytes(const CompiledLayout& layout);

}  // namespace orlop::gpu
