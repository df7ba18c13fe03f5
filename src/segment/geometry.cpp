// SPDX-License-Identifier: Apache-2.0
#include "segment/geometry.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "base/check.h"

namespace orlop::segment {
namespace {

constexpr std::uint64_t kSlabRowBytes = 4;
constexpr std::uint64_t kRowBytes = 64;  // of a slot, a namespace, a bucket
constexpr std::uint64_t kHeaderBytes = kPageBytes;

// Places everything behind the header. Requires slab_bytes, slab_count to be valid.
Geometry lay_out(std::uint64_t slab_bytes, std::uint32_t slab_count) {
  Geometry g;
  g.slab_bytes = slab_bytes;
  g.slab_count = slab_count;
  g.ordinals_per_slab = static_cast<std::uint32_t>(slab_bytes / kMinSlotBytes);
  g.slot_rows = 1 + slab_count * g.ordinals_per_slab;
  g.max_index_log2 = index_log2_for(std::uint64_t{slab_count} * g.ordinals_per_slab);
  g.index_place_bytes = align_up(kRowBytes << g.max_index_log2, kPageBytes);

  std::uint64_t at = kHeaderBytes;
  const auto place = [&at](std::uint64_t bytes) {
    const std::uint64_t offset = at;
    at = align_up(at + bytes, kPageBytes);
    return offset;
  };
  g.slab_table_offset = place(kSlabRowBytes * slab_count);
  g.namespace_table_offset = place(kRowBytes * kMaxNamespaceRows);
  g.namespace_text_offset = place(std::uint64_t{kNamespaceTextBytes} * kMaxNamespaceRows);
  g.slot_table_offset = place(kRowBytes * g.slot_rows);
  g.index_offset[0] = place(g.index_place_bytes);
  g.index_offset[1] = place(g.index_place_bytes);
  g.control_bytes = at;
  return g;
}

bool more_slots_than_ids(std::uint64_t slab_bytes, std::uint64_t slab_count) {
  return slab_count >
         (std::numeric_limits<std::uint32_t>::max() - 1) / (slab_bytes / kMinSlotBytes);
}

}  // namespace

std::uint64_t slot_bytes(std::uint64_t value_len) {
  return align_up(std::max(value_len, kMinSlotBytes), kMinSlotBytes);
}

std::uint32_t slots_per_slab(std::uint64_t slab_bytes, std::uint64_t value_len) {
  if (value_len > slab_bytes) return 0;
  return static_cast<std::uint32_t>(slab_bytes / slot_bytes(value_len));
}

std::uint64_t slab_bytes_for(std::uint64_t capacity, std::uint64_t max_value_len) {
  const std::uint64_t wanted =
      std::bit_floor(std::clamp(capacity / kMinSlabs, kMinSlotBytes, kMaxSlabBytes));
  const std::uint64_t largest = std::min(slot_bytes(max_value_len), kMaxSlabBytes);
  return std::max(wanted, std::bit_ceil(largest));
}

std::uint64_t expected_slabs(std::uint64_t payload, std::uint64_t slab_bytes,
                             std::uint64_t value_len) {
  const std::uint64_t slots = slots_per_slab(slab_bytes, value_len);
  CHECK(slots > 0, "value_len must fit into a slab");
  return div_ceil(payload, slots * slot_bytes(value_len));
}

unsigned index_log2_for(std::uint64_t slots) {
  const std::uint64_t buckets = std::max<std::uint64_t>(div_ceil(slots, kSlotsPerBucket), 2);
  return static_cast<unsigned>(std::bit_width(buckets - 1));
}

bool Geometry::in_bounds(SlotId slot, std::uint32_t value_len) const {
  if (slot.value == 0 || slot.value >= slot_rows || value_len == 0) return false;
  // Tested against the slab, not the area: a slot never crosses into the next slab. The same as
  // ordinal < slots_per_slab(), without its division: every page of every read comes by here.
  return (std::uint64_t{ordinal_of(slot)} + 1) * slot_bytes(value_len) <= slab_bytes;
}

Result<Geometry> make_geometry(std::uint64_t capacity, std::uint64_t max_value_len) {
  if (max_value_len == 0 || max_value_len > kMaxSlabBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.max_value_len is " + std::to_string(max_value_len) +
                    " bytes; it must be 1.." + std::to_string(kMaxSlabBytes));
  }
  const std::uint64_t slab = slab_bytes_for(capacity, max_value_len);
  const std::uint64_t count = capacity / slab;
  if (count == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "memory.capacity is " + std::to_string(capacity) +
                    " bytes, less than one slab of " + std::to_string(slab) +
                    " bytes (memory.max_value_len " + std::to_string(max_value_len) +
                    "); raise memory.capacity or lower memory.max_value_len");
  }
  if (more_slots_than_ids(slab, count)) {
    return fail(
        ErrorCode::kInvalidArgument,
        "memory.capacity is " + std::to_string(capacity) + " bytes, " + std::to_string(count) +
            " slabs of " + std::to_string(slab) +
            " bytes: more than 2^32 - 2 slots of 4 KiB; lower memory.capacity below 16 TiB");
  }
  return lay_out(slab, static_cast<std::uint32_t>(count));
}

bool Geometry::consistent() const {
  return std::has_single_bit(slab_bytes) && slab_bytes >= kMinSlotBytes &&
         slab_bytes <= kMaxSlabBytes && slab_count > 0 &&
         !more_slots_than_ids(slab_bytes, slab_count) && *this == lay_out(slab_bytes, slab_count);
}

}  // namespace orlop::segment
