// SPDX-License-Identifier: Apache-2.0
// The geometry of one part as plain data, for the copy loops of the CPU and the kernels of a GPU.
//
// This header needs no more than C++20 and the functions are constexpr, so that CUDA sources can
// include it and pass parts to kernels by value or copy an array of them to the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "orlop/kv_layout.h"

namespace orlop::gpu {

// A part as the copy loops want it: neighbouring rows are merged where value and page agree (tokens
// that lie side by side become one row), so `row_bytes` is as long as it can be.
// Dimensions of one element have stride 0.
struct CompiledPart {
  std::uint64_t value_offset = 0;  // where the part begins in the value
  std::uint64_t bytes = 0;         // of the part in one value
  std::uint64_t base = 0;
  std::uint64_t page_stride = 0;
  // Row (page p of the value, head h, token t) stands in the part at row_in_part() and in the cache
  // at row_in_cache().
  std::uint32_t heads = 1;
  std::uint64_t head_stride = 0;
  std::uint32_t tokens = 1;  // of one engine page
  std::uint64_t token_stride = 0;
  std::uint64_t row_bytes = 0;
  std::uint32_t pages_per_value = 1;
  std::uint32_t pool = 0;
  std::uint32_t layer = 0;

  bool operator==(const CompiledPart&) const = default;
};
static_assert(std::is_trivially_copyable_v<CompiledPart>);

// Bytes from the begin of the part in the value to row (page p of the value, head h, token t).
constexpr std::uint64_t row_in_part(const CompiledPart& part, ValueOrder order, std::uint64_t p,
                                    std::uint64_t h, std::uint64_t t) {
  const std::uint64_t row = order == ValueOrder::kHeadTokenChannel
                                ? (h * part.pages_per_value + p) * part.tokens + t
                                : (p * part.tokens + t) * part.heads + h;
  return row * part.row_bytes;
}

// Address of row (head h, token t) of the page with this number.
constexpr std::uint64_t row_in_cache(const CompiledPart& part, std::uint64_t number,
                                     std::uint64_t h, std::uint64_t t) {
  return part.base + number * part.page_stride + h * part.head_stride + t * part.token_stride;
}

}  // namespace orlop::gpu
