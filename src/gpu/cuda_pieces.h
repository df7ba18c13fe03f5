// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: where the pieces of values lie in value memory and in the cache, for copy
// engines that move pieces and for kernels that are told each address. Thread: plain functions.
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

// Every row is of whole checksum chunks (4 KiB): so is the value then, and a chunk is one piece.
bool rows_are_chunks(const CompiledLayout& layout);
// Where the chunks of one value lie in the cache, in their order: value_len / 4 KiB addresses.
// numbers: of its pages. Requires: rows_are_chunks().
void chunk_addresses(const CompiledLayout& layout, const std::uint32_t* numbers, std::byte** to);

}  // namespace orlop::gpu
