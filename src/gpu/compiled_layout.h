// SPDX-License-Identifier: Apache-2.0
// A KvLayout that was checked, with its geometry worked out once.
//
// Guarantees: immutable; every address it yields lies inside the extent of its part, no two (page,
// head, token) of all parts share a byte; parts tile the value without gaps, in order.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "orlop/error.h"
#include "orlop/kv_layout.h"

namespace orlop::gpu {

// A part as the copy loops want it: neighbouring rows are merged where value and page agree (tokens
// that lie side by side become one row), so `row_bytes` is as long as it can be.
struct CompiledPart {
  std::uint64_t value_offset = 0;  // where the part begins in the value
  std::uint64_t bytes = 0;         // of the part in one value
  std::uint64_t base = 0;
  std::uint64_t page_stride = 0;
  // Row (page p of the value, head h, token t) stands in the part at
  //   kHeadTokenChannel: ((h * pages_per_value + p) * tokens + t) * row_bytes
  //   kTokenHeadChannel: ((p * tokens + t) * heads + h) * row_bytes
  // and in the cache at base + number(p) * page_stride + h * head_stride + t * token_stride.
  std::uint32_t heads = 1;
  std::uint64_t head_stride = 0;
  std::uint32_t tokens = 1;  // of one engine page
  std::uint64_t token_stride = 0;
  std::uint64_t row_bytes = 0;
  std::uint32_t pages_per_value = 1;
  std::uint32_t pool = 0;
  std::uint32_t layer = 0;
};

class CompiledLayout {
 public:
  static constexpr std::size_t kMostParts = 65'536;
  static constexpr std::size_t kMostPools = 64;

  // value_len: of the namespace. Errors (kInvalidArgument) name the part and the remedy: no parts,
  // unknown pool, layers out of order, empty rows or pages, base null, overlap within a part or of
  // two parts, extent past 2^63, sizes that do not add up to value_len (both numbers).
  static Result<CompiledLayout> compile(const KvLayout& layout, std::uint64_t value_len);

  std::uint64_t value_len() const { return value_len_; }
  ValueOrder order() const { return order_; }
  std::span<const CompiledPart> parts() const { return parts_; }
  std::span<const KvPool> pools() const { return pools_; }
  // The largest power of two up to 16 that divides every address, stride, row and offset.
  std::uint32_t alignment() const { return alignment_; }
  // Bytes [first, end) of the value that layers [first, end) take. kInvalidArgument: empty or
  // beyond the last layer.
  struct Strip {
    std::uint64_t begin = 0, end = 0;
  };
  Result<Strip> strip(LayerRange range) const;
  std::uint32_t layers() const;  // the highest layer + 1
  // Pages of the pool that every part of it has: numbers below are legal.
  std::uint64_t pool_pages(std::uint32_t pool) const;
  // Checks numbers of pages for `values` values: count and range of each pool's list.
  Result<void> check_pages(std::size_t values,
                           std::span<const std::span<const std::int64_t>> pages) const;

 private:
  CompiledLayout() = default;
  std::uint64_t value_len_ = 0;
  ValueOrder order_ = ValueOrder::kHeadTokenChannel;
  std::uint32_t alignment_ = 1;
  std::vector<KvPool> pools_;
  std::vector<std::uint64_t> pool_pages_;
  std::vector<CompiledPart> parts_;
};

// For people: a table of parts (equal layers folded), order, bytes, what is merged, "opaque" where
// a part is one block.
std::string describe(const KvLayout& layout);

}  // namespace orlop::gpu
