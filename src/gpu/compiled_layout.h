// SPDX-License-Identifier: Apache-2.0
// A KvLayout that was checked, with its geometry worked out once.
//
// Guarantees: immutable; every address it yields lies inside the extent of its part, no two (page,
// head, token) of all parts share a byte; parts tile the value without gaps, in order.
// Parts of one page stride may interleave in any way (packed K and V, blocks across layers, heads
// outside of pages). Parts of different page strides must lie apart as a whole: interleaved ones
// are refused even where no byte is shared. So are layouts of more than kMostRowsLookedAt rows a
// page whose pages interleave. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/compiled_part.h"
#include "orlop/error.h"
#include "orlop/kv_layout.h"

namespace orlop::gpu {

class CompiledLayout {
 public:
  static constexpr std::size_t kMostParts = 65'536;
  static constexpr std::size_t kMostPools = 64;
  static constexpr std::uint32_t kMostLayers = 1u << 20;
  static constexpr std::uint32_t kMostPagesPerValue = 65'535;
  // Rows of one page of all parts that the search for overlaps looks at one by one; seconds at
  // most.
  static constexpr std::uint64_t kMostRowsLookedAt = 1u << 21;

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
  // Bytes [begin, end) of the value that layers [first, end) take; none if no part has a layer of
  // the range (a pipeline rank's layers need not begin at 0). kInvalidArgument: an empty range or
  // one that ends beyond layers().
  struct Strip {
    std::uint64_t begin = 0, end = 0;
  };
  Result<Strip> strip(LayerRange range) const;
  std::uint32_t layers() const;                 // the highest layer + 1
  std::uint64_t rows() const { return rows_; }  // of one value, neighbours merged
  // The rows' length that most bytes of a value have at least.
  std::uint64_t typical_row_bytes() const { return typical_row_bytes_; }
  // Of this compile(), and of copies of what it returned; no other of the process has it.
  std::uint64_t identity() const { return identity_; }
  // Pages of the pool that every part of it has: numbers below are legal. Of a pool that no part
  // uses: 2^63 - 1.
  std::uint64_t pool_pages(std::uint32_t pool) const;
  // Checks numbers of pages for `values` values: count and range of each pool's list.
  Result<void> check_pages(std::size_t values,
                           std::span<const std::span<const std::int64_t>> pages) const;

 private:
  CompiledLayout() = default;
  std::uint64_t value_len_ = 0;
  ValueOrder order_ = ValueOrder::kHeadTokenChannel;
  std::uint32_t alignment_ = 1;
  std::uint64_t rows_ = 0, typical_row_bytes_ = 0;
  std::uint64_t identity_ = 0;
  std::vector<KvPool> pools_;
  std::vector<std::uint64_t> pool_pages_;
  std::vector<CompiledPart> parts_;
};

// Bytes of one value of this layout: what the namespace's value_len must be. Errors as compile()
// for what is wrong with sizes.
Result<std::uint64_t> value_bytes(const KvLayout& layout);

// For people: a table of parts (equal layers folded), order, bytes, what is merged, "opaque" where
// a part is one block.
std::string describe(const KvLayout& layout);

}  // namespace orlop::gpu
