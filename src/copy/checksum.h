// SPDX-License-Identifier: Apache-2.0
// The checksum of a value: one definition for GPU, AVX-512, AVX2 and scalar code.
//
//   w[j]    the value as little-endian u32 words, zero-padded to a multiple of 8 bytes
//   key(j)  = T[j % 1024] + H(j / 1024)                                               mod 2^32
//   S       = sum over even j of ((w[j] + key(j)) mod 2^32) * ((w[j+1] + key(j+1)) mod 2^32)
//                                                                                     mod 2^64
//   result  = finalise(S, length in bytes, KeyId, 64 bits of the namespace digest)
//
// S is a plain sum of independent terms, so any thread may add any part in any order. One
// 32x32->64 multiply per 8 bytes is what vector units and GPUs do best (the NH family of UMAC).
// A wrong page passes with a probability of about 2^-32. It guards against accidents and stale
// or misplaced pages, not against somebody who computes collisions: all constants are public.
//
// The result is bound to identity: the right bytes under another key, namespace or length do not
// pass. 0 is a legal result like any other; it never means "no checksum".
//
// The constants are part of the stored format (slots, SSD, peers): changing one makes every stored
// value unreadable. checksum_test.cpp pins them with literal numbers.
//
// Thread: everything here is pure and may be called from any thread. This header needs no more
// than C++20 so that CUDA sources can include it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace orlop {

static_assert(std::endian::native == std::endian::little, "words are read in native order");

// Which value the bytes claim to be.
struct ChecksumIdentity {
  KeyId key;
  std::uint64_t namespace_digest = 0;  // the first 8 bytes of the namespace's digest
};

// One chunk of words shares one H; 1,024 words are 4 KiB, so T stays in the L1 cache (or in a GPU
// block's shared memory).
inline constexpr std::size_t kChecksumChunkWords = 1024;
inline constexpr std::size_t kChecksumChunkBytes = 4 * kChecksumChunkWords;

// A bijection on 64 bits in which every input bit reaches every output bit (the output function of
// SplitMix64, Steele, Lea and Flood 2014).
constexpr std::uint64_t checksum_mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// T: the upper halves of the SplitMix64 sequence that starts at the ASCII text "ORLOPCK1".
constexpr std::array<std::uint32_t, kChecksumChunkWords> make_checksum_table() {
  std::array<std::uint32_t, kChecksumChunkWords> table{};
  std::uint64_t state = 0x314b43504f4c524fu;
  for (std::uint32_t& word : table) {
    state += 0x9e3779b97f4a7c15u;
    word = static_cast<std::uint32_t>(checksum_mix(state) >> 32);
  }
  return table;
}
alignas(64) inline constexpr auto kChecksumTable = make_checksum_table();

// H: a 32-bit finaliser, so that equal words in different chunks meet different keys. Constants of
// the "lowbias32" integer hash. H(0) is 0: keys of the first chunk are T itself.
constexpr std::uint32_t checksum_chunk_key(std::uint64_t chunk) {
  std::uint32_t x = static_cast<std::uint32_t>(chunk);
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// The 64-bit result from S. For one identity and length it is a bijection of S: it neither adds
// nor hides a collision of S.
constexpr std::uint64_t finalise(std::uint64_t sum, std::uint64_t length,
                                 const ChecksumIdentity& identity) {
  std::uint64_t x = 0x6d7573706f6c726fu;  // "orlopsum": an all-zero identity is nothing special
  for (std::uint64_t part :
       {identity.namespace_digest, identity.key.lo, identity.key.hi, length, sum}) {
    // The added constant keeps 0 from being a fixed point.
    x = checksum_mix((x ^ part) + 0x9e3779b97f4a7c15u);
  }
  return x;
}

// S of a part of a value that begins at word `first_word` of the value. S of the whole is the sum
// mod 2^64 over its parts.
// Requires: first_word even; every part but the last a multiple of 8 bytes long.
// Any alignment. Uses the fastest kind this CPU has (copy.h).
std::uint64_t raw_sum(std::span<const std::byte> part, std::uint64_t first_word = 0);

// The checksum of a value that is not copied at the same time (else: copy_in, copy_out).
std::uint64_t checksum(std::span<const std::byte> value, const ChecksumIdentity& identity);

}  // namespace orlop
