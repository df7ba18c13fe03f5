// SPDX-License-Identifier: Apache-2.0
// Test support of room copy: bytes whose checksums are pinned by literal numbers.
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

}  // namespace orlop
