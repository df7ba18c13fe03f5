// SPDX-License-Identifier: Apache-2.0
// Sizes and places: how a capacity becomes slabs, slots and offsets. Pure arithmetic, fixed in the
// header of the control area at cold start.
//
// Rules: CAP-10..15 of sources/fluxon.md; design 10 section 1 "Sizes".
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "orlop/error.h"

namespace orlop::segment {

inline constexpr std::uint64_t kMinSlotBytes = 4 * kKiB;    // CAP-10
inline constexpr std::uint64_t kMaxSlabBytes = 512 * kMiB;  // CAP-1
inline constexpr std::uint64_t kDefaultMaxValueLen = 8 * kMiB;
inline constexpr std::uint32_t kMinSlabs = 32;  // slab <= capacity / 32
inline constexpr std::uint32_t kMaxNamespaceRows = 1024;
inline constexpr std::uint32_t kNamespaceTextBytes = 4096;  // longest descriptor text
inline constexpr std::uint32_t kMaxSizeClasses = 256;       // at once
inline constexpr unsigned kBucketEntries = 7;
inline constexpr unsigned kSlotsPerBucket = 5;  // buckets = pow2 >= slots / 5

// align_up(max(value_len, 4 KiB), 4 KiB): exact fit, never a power of two. value_len > 0.
std::uint64_t slot_bytes(std::uint64_t value_len);
// floor(slab / slot); 0 when a value does not fit into a slab.
std::uint32_t slots_per_slab(std::uint64_t slab_bytes, std::uint64_t value_len);
// Largest power of two <= min(512 MiB, capacity / 32), at least the power of two that holds
// max_value_len (and 4 KiB).
std::uint64_t slab_bytes_for(std::uint64_t capacity, std::uint64_t max_value_len);
// ceil(payload / (slots_per_slab * slot_bytes)): tail loss of every slab counted (CAP-13).
std::uint64_t expected_slabs(std::uint64_t payload, std::uint64_t slab_bytes,
                             std::uint64_t value_len);
// log2 of the smallest power of two of buckets >= slots / 5; at least 1.
unsigned index_log2_for(std::uint64_t slots);

struct Geometry {
  std::uint64_t slab_bytes = 0;
  std::uint32_t slab_count = 0;
  std::uint32_t ordinals_per_slab = 0;  // slab_bytes / 4 KiB: slot ids per slab
  std::uint32_t max_index_log2 = 0;
  std::uint32_t slot_rows = 0;  // 1 + slab_count * ordinals_per_slab; row 0 unused
  // Offsets in the control area, page aligned; and its total size.
  std::uint64_t slab_table_offset = 0;
  std::uint64_t namespace_table_offset = 0;
  std::uint64_t namespace_text_offset = 0;
  std::uint64_t slot_table_offset = 0;
  std::uint64_t index_offset[2] = {0, 0};
  std::uint64_t index_place_bytes = 0;
  std::uint64_t control_bytes = 0;

  constexpr bool operator==(const Geometry&) const = default;
  std::uint64_t value_bytes() const { return slab_bytes * slab_count; }
  constexpr SlotId slot_id(SlabId slab, std::uint32_t ordinal) const {
    return SlotId{1 + slab.value * ordinals_per_slab + ordinal};
  }
  constexpr SlabId slab_of(SlotId slot) const {
    return SlabId{(slot.value - 1) / ordinals_per_slab};
  }
  constexpr std::uint32_t ordinal_of(SlotId slot) const {
    return (slot.value - 1) % ordinals_per_slab;
  }
  // Offset of a slot's bytes in the value area. value_len: of the *pinned* slot's row, read after
  // the pin check, never from a cached slab table.
  std::uint64_t value_offset(SlotId slot, std::uint32_t value_len) const {
    return std::uint64_t{slab_of(slot).value} * slab_bytes +
           std::uint64_t{ordinal_of(slot)} * slot_bytes(value_len);
  }
  // True if a slot of this value_len lies wholly inside the value area.
  bool in_bounds(SlotId slot, std::uint32_t value_len) const;
  // True if the numbers are what make_geometry() derives from slab_bytes and slab_count: for a
  // geometry that was read from memory.
  bool consistent() const;
};

// capacity: bytes of the value area, rounded down to whole slabs. Errors name the numbers:
// capacity smaller than one slab, max_value_len 0 or over 512 MiB, more slot ids than 32 bits.
Result<Geometry> make_geometry(std::uint64_t capacity, std::uint64_t max_value_len);

}  // namespace orlop::segment
