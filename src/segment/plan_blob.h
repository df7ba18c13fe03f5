// SPDX-License-Identifier: Apache-2.0
// Plan blob: native endian 8-byte words in the client-only part of the channel, so that GPU kernels
// can read it directly: { magic, count, value_ptrs[count] }.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace orlop::segment {

inline constexpr std::uint64_t kPlanMagic = 0x314c5050'4f4c524fULL;  // "ORLOPPL1"
constexpr std::uint64_t plan_blob_bytes(std::uint64_t count) {
  return 8 * (2 + count);
}

// First-fit allocator of byte ranges inside a fixed span, private bookkeeping. Used for plan blobs
// and for the arena. Not thread-safe. Offsets are multiples of 64.
class RangeAllocator {
 public:
  explicit RangeAllocator(std::uint64_t bytes);
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  void free(std::uint64_t offset, std::uint64_t bytes);
  std::uint64_t used() const { return used_; }
  void reset();  // everything free again

 private:
  struct Range {
    std::uint64_t offset, bytes;
  };
  std::uint64_t total_ = 0;
  std::uint64_t used_ = 0;
  std::vector<Range> free_;  // by offset, neighbours merged
};

}  // namespace orlop::segment
