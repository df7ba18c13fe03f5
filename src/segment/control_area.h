// SPDX-License-Identifier: Apache-2.0
// The control area: header, slab table, namespace table, slot table, two places for the key index.
//
// The node maps it read-write, clients read-only. A ControlArea is a typed view over a mapped span;
// it owns nothing and may be copied. Thread: any number of readers; only the node's one thread
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "orlop/error.h"
#include "segment/atomics.h"
#include "segment/geometry.h"
#include "segment/slot_row.h"

namespace orlop::segment {

inline constexpr std::uint64_t kControlMagic = 0x31544350'4f4c524fULL;  // "ORLOPCT1"
inline constexpr std::uint32_t kAbiVersion = 2;  // of everything in shared memory and attach frames

enum class ServerState : std::uint32_t { kNone = 0, kRecovering = 1, kReady = 2, kStopping = 3 };

// First page of the control area.
struct ControlHeader {
  // Fixed at cold start.
  std::uint64_t magic;
  std::uint32_t abi;
  std::uint32_t header_bytes;
  std::uint64_t segment_id;
  Geometry geometry;
  std::uint64_t fixed_sum;  // checksum of the fields above
  // Written by the node while clients read; a cache line each where both sides are hot.
  alignas(64) Atomic<std::uint64_t> index_word;     // see IndexWord
  alignas(64) Atomic<std::uint32_t> node_sleeping;  // doorbell flag: node is about to sleep
  alignas(64) Atomic<std::uint64_t> pin_cap_bytes;  // per client, in force; written after each scan
  Atomic<std::uint64_t> incarnation;
  Atomic<std::uint32_t> server_state;
  Atomic<std::uint32_t> next_namespace_index;  // first index never given out
  Atomic<std::uint32_t> draining;              // 1: no new puts; outlives the server
};
static_assert(sizeof(ControlHeader) <= kPageBytes);

// {epoch 32, place 8, log2 8}: which of the two places holds the index, and how large it is.
struct IndexWord {
  std::uint32_t epoch = 0;
  std::uint8_t place = 0;
  std::uint8_t log2 = 1;
  constexpr bool operator==(const IndexWord&) const = default;
  constexpr std::uint64_t pack() const {
    return (std::uint64_t{epoch} << 32) | (std::uint64_t{place} << 8) | log2;
  }
  static constexpr IndexWord unpack(std::uint64_t w) {
    return {static_cast<std::uint32_t>(w >> 32), static_cast<std::uint8_t>((w >> 8) & 1),
            static_cast<std::uint8_t>(w & 63)};
  }
};

// A slab's class: slot size in 4 KiB units; 0 = unassigned. Set before the first Prepared of the
// slab, cleared only when all its slots are Free.
struct SlabRow {
  Atomic<std::uint32_t> slot_pages;
};

// A row is in use when current_index != 0; that word is stored last at open and alone at flush.
struct NamespaceTableRow {
  Atomic<std::uint32_t> current_index;
  std::uint32_t value_len;
  std::uint64_t digest_lo, digest_hi;  // of the whole descriptor text
  std::uint64_t family_lo, family_hi;  // of the descriptor without rank coordinates
  std::uint32_t text_bytes;
  std::uint32_t reserved[5];
};
static_assert(sizeof(NamespaceTableRow) == 64);

struct IndexBucket;  // key_index.h

class ControlArea {
 public:
  ControlArea() = default;
  // Writes header and geometry into a zeroed span of geometry.control_bytes.
  static ControlArea format(std::span<std::byte> span, const Geometry& geometry, SegmentId id);
  // Checks magic, ABI, geometry and their checksum; an error says which, with both values.
  static Result<ControlArea> open(std::span<std::byte> span);

  ControlHeader& header() const { return *header_; }
  // As it was when the view was made: a header damaged later does not move anything.
  const Geometry& geometry() const { return geometry_; }
  SegmentId segment_id() const { return SegmentId{header_->segment_id}; }
  SlotRow& slot(SlotId id) const { return slots_[id.value]; }
  bool valid_slot(SlotId id) const { return id.value != 0 && id.value < geometry_.slot_rows; }
  SlabRow& slab(SlabId id) const { return slabs_[id.value]; }
  NamespaceTableRow& namespace_row(NamespaceRow row) const { return namespaces_[row.value]; }
  std::span<char> namespace_text(NamespaceRow row) const;  // kNamespaceTextBytes
  IndexBucket* index_place(unsigned place) const { return index_[place]; }
  IndexWord index_word() const {
    return IndexWord::unpack(header_->index_word.load(std::memory_order_acquire));
  }
  // Current index of an open row; NamespaceIndex 0 if the row is unused.
  NamespaceIndex current_index(NamespaceRow row) const {
    return NamespaceIndex{namespaces_[row.value].current_index.load(std::memory_order_acquire)};
  }

 private:
  void set_places(std::byte* base, const Geometry& geometry);
  ControlHeader* header_ = nullptr;
  SlotRow* slots_ = nullptr;
  SlabRow* slabs_ = nullptr;
  NamespaceTableRow* namespaces_ = nullptr;
  char* texts_ = nullptr;
  IndexBucket* index_[2] = {nullptr, nullptr};
  Geometry geometry_;
};

}  // namespace orlop::segment
