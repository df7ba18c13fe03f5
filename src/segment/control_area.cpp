// SPDX-License-Identifier: Apache-2.0
#include "segment/control_area.h"

#include <cstddef>
#include <string>

#include "base/check.h"
#include "segment/key_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace orlop::segment {
namespace {

// Over every fixed field; Geometry has padding nowhere that could differ (all of it is summed as
// written by format() into zeroed memory).
std::uint64_t sum_of_fixed_part(const ControlHeader& header) {
  return XXH3_64bits(&header, offsetof(ControlHeader, fixed_sum));
}

std::unexpected<Error> differs(const char* what, std::uint64_t found, std::uint64_t expected) {
  return fail(ErrorCode::kAbiMismatch, std::string("control area: ") + what + " is " +
                                           std::to_string(found) + ", expected " +
                                           std::to_string(expected));
}

}  // namespace

ControlArea ControlArea::format(std::span<std::byte> span, const Geometry& geometry, SegmentId id) {
  CHECK(geometry.consistent());
  CHECK(span.size() >= geometry.control_bytes, "span smaller than the control area");
  ControlArea area;
  area.set_places(span.data(), geometry);
  ControlHeader& h = *area.header_;
  h.abi = kAbiVersion;
  h.header_bytes = sizeof(ControlHeader);
  h.segment_id = id.value;
  h.geometry = geometry;
  h.index_word.store(IndexWord{}.pack(), std::memory_order_relaxed);
  // A quarter of the value area until the node writes the cap of its configuration.
  h.pin_cap_bytes.store(geometry.value_bytes() / 4, std::memory_order_relaxed);
  h.next_namespace_index.store(1, std::memory_order_relaxed);
  h.server_state.store(static_cast<std::uint32_t>(ServerState::kNone), std::memory_order_relaxed);
  h.magic = kControlMagic;
  h.fixed_sum = sum_of_fixed_part(h);
  return area;
}

Result<ControlArea> ControlArea::open(std::span<std::byte> span) {
  if (span.size() < kPageBytes) return differs("size", span.size(), kPageBytes);
  const auto& h = *reinterpret_cast<const ControlHeader*>(span.data());
  // In this order: a foreign or older layout is told by name before its sum can be judged.
  if (h.magic != kControlMagic) return differs("magic", h.magic, kControlMagic);
  if (h.abi != kAbiVersion) return differs("ABI version", h.abi, kAbiVersion);
  if (h.header_bytes != sizeof(ControlHeader))
    return differs("header size", h.header_bytes, sizeof(ControlHeader));
  const std::uint64_t sum = sum_of_fixed_part(h);
  if (h.fixed_sum != sum) return differs("header checksum", h.fixed_sum, sum);
  const Geometry geometry = h.geometry;
  if (!geometry.consistent()) {
    return fail(ErrorCode::kCorrupt, "control area: geometry does not follow from its slab size " +
                                         std::to_string(geometry.slab_bytes) + " and slab count " +
                                         std::to_string(geometry.slab_count));
  }
  if (span.size() < geometry.control_bytes)
    return differs("size", span.size(), geometry.control_bytes);
  ControlArea area;
  area.set_places(span.data(), geometry);
  return area;
}

std::span<char> ControlArea::namespace_text(NamespaceRow row) const {
  CHECK(row.value < kMaxNamespaceRows);
  return {texts_ + std::size_t{row.value} * kNamespaceTextBytes, kNamespaceTextBytes};
}

void ControlArea::set_places(std::byte* base, const Geometry& geometry) {
  CHECK(reinterpret_cast<std::uintptr_t>(base) % kCacheLine == 0, "rows must be cache lines");
  header_ = reinterpret_cast<ControlHeader*>(base);
  slabs_ = reinterpret_cast<SlabRow*>(base + geometry.slab_table_offset);
  namespaces_ = reinterpret_cast<NamespaceTableRow*>(base + geometry.namespace_table_offset);
  texts_ = reinterpret_cast<char*>(base + geometry.namespace_text_offset);
  slots_ = reinterpret_cast<SlotRow*>(base + geometry.slot_table_offset);
  for (int place = 0; place < 2; ++place)
    index_[place] = reinterpret_cast<IndexBucket*>(base + geometry.index_offset[place]);
  geometry_ = geometry;
}

}  // namespace orlop::segment
