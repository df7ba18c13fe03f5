// SPDX-License-Identifier: Apache-2.0
// Test support of room copy and of what sums as it does: bytes whose checksums are pinned by
// literal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "copy/checksum.h"

namespace orlop {

// Byte i is the low byte of checksum_mix(i).
inline std::vector<std::byte> pattern_bytes(std::size_t bytes) {
  std::vector<std::byte> value(bytes);
  for (std::size_t i = 0; i < bytes; ++i) value[i] = std::byte(checksum_mix(i) & 0xff);
  return value;
}

inline constexpr ChecksumIdentity kTestIdentity{
    .key = {.lo = 0x0123456789abcdef, .hi = 0xfedcba9876543210},
    .namespace_digest = 0x1122334455667788};

// Of pattern_bytes. Computed by a separate Python program written from the text of checksum.h;
// shared by every implementation's tests, a GPU's too.
struct GoldenSum {
  std::size_t bytes;
  std::uint64_t sum;         // S
  std::uint64_t all_zero;    // result for an all-zero identity
  std::uint64_t identified;  // result for kTestIdentity
};
inline constexpr GoldenSum kGoldenSums[] = {
    {0, 0x0000000000000000, 0x2b19aafe0ee17db8, 0x34c0772760696cd6},
    {1, 0x595bbd4c8de846b6, 0xedeac0b0497fa1c2, 0xd5f88e7ae5386782},
    {3, 0x598dae8ee209ccb6, 0xecafdb7fb8710a75, 0xa8f06f2ac5967c2b},
    {4, 0x53cce13e0209ccb6, 0xff796b7394a50126, 0x03707edd18d7132a},
    {7, 0x542ffbb2a8883bba, 0xb72130b30ed9c1d4, 0x1f8baa3ad7c0fe9f},
    {8, 0x66651cf5ac883bba, 0x8fe9c12529384a08, 0x3e8d806db94db1b7},
    {9, 0x2faf877202d13616, 0x80fd421701d1a0e2, 0xb5e915357c8e3f88},
    {63, 0x91d6d962ed7fa517, 0xc8072c0b2c5816a0, 0xe679734ecefdbe4a},
    {64, 0x9bdc5945ea7fa517, 0xf89587c274b78dc7, 0xa2141fe9804b6ec6},
    {65, 0xff96effd4b26ef76, 0xb883747c6c7f4521, 0x4a406ab3984a2783},
    {4095, 0x0f8839ea37b083bd, 0x9a6c223ba15b09b9, 0xde09d44c646ebdb1},
    {4096, 0xef2afb76f7b083bd, 0x0fcbe14191d7bfff, 0x5ba758cd5ff81b81},
    {4097, 0x39b20e66971b65b3, 0x7589eaf6de26018a, 0x9c4ccabc3f0a6e88},
    {4100, 0x67097034e7259fb3, 0x8685fee33767a6c6, 0x22cde290b18820d4},
    {65536, 0x1c27a12e0ed99fbe, 0x2cfe6dea5b29e553, 0x71c2fa61f52f0924},
    {294912, 0x8c90ad877f3ba422, 0xbc49476a559552c0, 0x7a1ac1153430640a},
    {1048576, 0x6d7a5678b827e865, 0x6ee69c2eb902c77b, 0xeb2513d122ca38fe},
};

// S of 65,536 equal bytes.
inline constexpr std::uint64_t kGoldenSumOfZeros = 0xfab0b0ab4fc56346;
inline constexpr std::uint64_t kGoldenSumOfOnes = 0xfab0909240f51666;

}  // namespace orlop
