// SPDX-License-Identifier: Apache-2.0
// Internal to room copy: the definition's inner loop, 8 bytes at a time. The whole of the scalar
// kind, and what is left over at the ends of the vector kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "copy/checksum.h"

namespace orlop {

// What a loop does with the bytes besides summing them.
enum class Store { kNone, kPlain, kNonTemporal };

// dst + offset where there is a dst: loops that only sum have none.
template <Store kStore>
std::byte* at(std::byte* dst, std::size_t offset) {
  return kStore == Store::kNone ? nullptr : dst + offset;
}

// One term of S. table_index: position of `pair`'s first word in its chunk.
inline std::uint64_t pair_term(std::uint64_t pair, std::size_t table_index,
                               std::uint32_t chunk_key) {
  const std::uint32_t low =
      static_cast<std::uint32_t>(pair) + kChecksumTable[table_index] + chunk_key;
  const std::uint32_t high =
      static_cast<std::uint32_t>(pair >> 32) + kChecksumTable[table_index + 1] + chunk_key;
  return std::uint64_t{low} * high;
}

// Sums (and copies, unless kNone) bytes that begin at word `first_word` and end in the same chunk.
// Only the last bytes of a value may be other than a multiple of 8.
template <Store kStore>
std::uint64_t sum_pairs_in_chunk(std::byte* dst, const std::byte* src, std::size_t bytes,
                                 std::uint64_t first_word) {
  const std::uint32_t chunk_key = checksum_chunk_key(first_word / kChecksumChunkWords);
  std::size_t index = first_word % kChecksumChunkWords;
  std::uint64_t sum = 0;
  std::size_t done = 0;
  for (; done + 8 <= bytes; done += 8, index += 2) {
    std::uint64_t pair;
    std::memcpy(&pair, src + done, 8);
    // The compiler may not load the word a second time: src can change under us.
    asm("" : "+r"(pair));
    if constexpr (kStore != Store::kNone) std::memcpy(dst + done, &pair, 8);
    sum += pair_term(pair, index, chunk_key);
  }
  if (done < bytes) {
    std::uint64_t pair = 0;
    std::memcpy(&pair, src + done, bytes - done);
    asm("" : "+r"(pair));
    if constexpr (kStore != Store::kNone) std::memcpy(dst + done, &pair, bytes - done);
    sum += pair_term(pair, index, chunk_key);
  }
  return sum;
}

// How many of `bytes` lie in the chunk of word `word`.
inline std::size_t bytes_in_chunk(std::uint64_t word, std::size_t bytes) {
  const std::size_t room = kChecksumChunkBytes - 4 * (word % kChecksumChunkWords);
  return bytes < room ? bytes : room;
}

}  // namespace orlop
