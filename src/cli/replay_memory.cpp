// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_memory.h"

#include <string>

#include "base/bytes.h"
#include "segment/geometry.h"

namespace orlop::cli {

Result<ReplayMemory> replay_memory(std::uint64_t capacity_pages, std::uint64_t free_pages,
                                   std::uint64_t value_bytes) {
  constexpr std::uint64_t kMostPages = std::uint64_t{1} << 32;
  if (value_bytes > segment::kMaxSlabBytes || capacity_pages > kMostPages) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(capacity_pages) + " pages of " +
                                                 std::to_string(value_bytes) +
                                                 " bytes: at most 2^32 pages, of at most " +
                                                 std::to_string(segment::kMaxSlabBytes) + " bytes");
  }
  const std::uint64_t needed = capacity_pages + free_pages;
  std::uint64_t capacity = needed * segment::slot_bytes(value_bytes);
  // A slab's size follows from the capacity, and the capacity is whole slabs: larger slabs may need
  // another round, until one fits. A slab grows by doubling, so a few rounds are enough.
  for (;;) {
    const std::uint64_t slab = segment::slab_bytes_for(capacity, value_bytes);
    const std::uint64_t per_slab = segment::slots_per_slab(slab, value_bytes);
    const std::uint64_t slabs = div_ceil(needed, per_slab);
    capacity = slabs * slab;
    if (segment::slab_bytes_for(capacity, value_bytes) == slab) {
      const std::uint64_t slots = slabs * per_slab;
      return ReplayMemory{capacity, slots,
                          (slots - capacity_pages) * segment::slot_bytes(value_bytes)};
    }
  }
}

}  // namespace orlop::cli
