// SPDX-License-Identifier: Apache-2.0
// Internal to the kernels of room gpu: where the cells (16 bytes) of a value lie in a paged cache,
// and how one is loaded, stored and, where a strip cuts it, moved byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_checksum.cuh"
#include "gpu/cuda_move.h"

namespace orlop::gpu {
namespace {

__device__ std::uint32_t divide(std::uint32_t n, FastDivision by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}

// Address of byte `offset` of a value that `part` holds; *left: bytes from there to the end of its
// row. of_value: the value's page numbers.
__device__ std::uint64_t byte_of_cache(const DevicePart& part, const std::uint32_t* of_value,
                                       bool token_first, std::uint32_t offset,
                                       std::uint32_t* left) {
  const std::uint32_t in_part = offset - part.begin;
  const std::uint32_t row = divide(in_part, part.by_row);
  const std::uint32_t in_row = in_part - row * part.row_bytes;
  const std::uint32_t a = divide(row, part.by_first);
  const std::uint32_t i1 = row - a * part.first;
  const std::uint32_t i3 = divide(a, part.by_second);
  const std::uint32_t i2 = a - i3 * part.second;
  const std::uint32_t token = token_first ? i2 : i1;
  const std::uint32_t page = token_first ? i3 : i2;
  const std::uint32_t head = token_first ? i1 : i3;
  if (left != nullptr) *left = part.row_bytes - in_row;
  const std::uint64_t number = of_value[part.pool_first + page];
  return part.base + number * part.page_stride + head * part.head_stride +
         token * part.token_stride + in_row;
}

// Finds cells of one value in the cache. Offsets asked for must not decrease between two start().
class CacheSide {
 public:
  __device__ CacheSide(const MoveArguments& a, const std::uint32_t* numbers)
      : parts_(a.parts), numbers_(numbers), token_first_(a.token_first) {}

  __device__ void start(std::uint32_t part, std::uint32_t value, std::uint32_t numbers_per_value) {
    index_ = part;
    part_ = parts_[part];
    of_value_ = numbers_ + static_cast<std::size_t>(value) * numbers_per_value;
  }

  // Address of byte `offset` of the value; *left: bytes from there to the end of its row.
  __device__ std::byte* at(std::uint32_t offset, std::uint32_t* left = nullptr) {
    while (offset >= part_.end) part_ = parts_[++index_];
    return reinterpret_cast<std::byte*>(
        byte_of_cache(part_, of_value_, token_first_, offset, left));
  }

 private:
  const DevicePart* parts_;
  const std::uint32_t* numbers_;
  const std::uint32_t* of_value_ = nullptr;
  DevicePart part_;
  std::uint32_t index_ = 0;
  bool token_first_;
};

union Cell {
  uint4 all;
  std::uint64_t half[2];
  std::uint32_t word[4];
};

template <unsigned kUnit>
__device__ uint4 load_cells(CacheSide& cache, std::uint32_t offset) {
  Cell cell{};
  if constexpr (kUnit == 16) {
    return __ldcs(reinterpret_cast<const uint4*>(cache.at(offset)));
  } else if constexpr (kUnit == 8) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      cell.half[i] = __ldcs(reinterpret_cast<const unsigned long long*>(cache.at(offset + 8 * i)));
    }
  } else if constexpr (kUnit == 4) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      cell.word[i] = __ldcs(reinterpret_cast<const unsigned*>(cache.at(offset + 4 * i)));
    }
  } else {
    std::uint32_t word = 0;
#pragma unroll 1
    for (unsigned i = 0; i < 16; ++i) {
      word |= static_cast<std::uint32_t>(*cache.at(offset + i)) << (8 * (i % 4));
      if (i % 4 == 3) {
        if (i == 3) cell.word[0] = word;
        if (i == 7) cell.word[1] = word;
        if (i == 11) cell.word[2] = word;
        if (i == 15) cell.word[3] = word;
        word = 0;
      }
    }
  }
  return cell.all;
}

__device__ std::uint32_t byte_of(const uint4& cell, unsigned i) {
  const std::uint32_t word = i < 8 ? (i < 4 ? cell.x : cell.y) : (i < 12 ? cell.z : cell.w);
  return (word >> (8 * (i % 4))) & 0xff;
}

template <unsigned kUnit>
__device__ void store_cells(CacheSide& cache, std::uint32_t offset, const uint4& value) {
  Cell cell;
  cell.all = value;
  if constexpr (kUnit == 16) {
    __stcs(reinterpret_cast<uint4*>(cache.at(offset)), value);
  } else if constexpr (kUnit == 8) {
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      __stcs(reinterpret_cast<unsigned long long*>(cache.at(offset + 8 * i)),
             static_cast<unsigned long long>(cell.half[i]));
    }
  } else if constexpr (kUnit == 4) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      __stcs(reinterpret_cast<unsigned*>(cache.at(offset + 4 * i)), cell.word[i]);
    }
  } else {
#pragma unroll 1
    for (unsigned i = 0; i < 16; ++i) {
      *cache.at(offset + i) = static_cast<std::byte>(byte_of(value, i));
    }
  }
}

// Bytes [low, high) of the cell at `offset` (the cell is cut by the strip or the end of the value).
struct Cut {
  std::uint32_t low, high;
};

template <MoveKind kKind>
__device__ uint4 move_cut_cell(CacheSide& cache, std::byte* value, std::uint32_t offset, Cut cut) {
  std::uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
  for (unsigned i = 0; i < kCellBytes; ++i) {
    const std::uint32_t o = offset + i;
    if (o < cut.low || o >= cut.high) continue;
    std::byte byte;
    if constexpr (kKind == MoveKind::kScatter) {
      byte = value[o];
      *cache.at(o) = byte;
    } else {
      byte = *cache.at(o);
      if constexpr (kKind == MoveKind::kGather) value[o] = byte;
    }
    word[i / 4] |= static_cast<std::uint32_t>(byte) << (8 * (i % 4));
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

}  // namespace
}  // namespace orlop::gpu
