// SPDX-License-Identifier: Apache-2.0
// Small arithmetic on byte counts and powers of two.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace orlop {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kCacheLine = 64;

// alignment: a power of two.
constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t alignment) {
  return (n + alignment - 1) & ~(alignment - 1);
}
constexpr std::uint64_t div_ceil(std::uint64_t n, std::uint64_t d) {
  return (n + d - 1) / d;
}

}  // namespace orlop
