// SPDX-License-Identifier: Apache-2.0
// The channel of one client: a memfd, read-write for that client and for the node.
//
//   header | client report | request ring | response ring | arena | ledger bitmap | ledger cells |
//   touch ring | missed ring | plans
//
// Ownership: the client writes everything but the response ring's cells and tail, the answers in
// the arena, the request ring's head, and the word that says that it is reclaimed. The node never
// writes the `plans` part: a late answer must not become somebody's value_ptrs[]. The node trusts
// nothing in it: it copies before it validates, uses its own copy of the geometry (ChannelGeometry
// it created the channel with), and masks every index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ids.h"
#include "orlop/error.h"
#include "segment/atomics.h"
#include "segment/client_report.h"

namespace orlop::segment {

inline constexpr std::uint64_t kChannelMagic = 0x31484350'4f4c524fULL;   // "ORLOPCH1"
inline constexpr std::uint64_t kReclaimedMark = 0x454e4f47'4f4c524fULL;  // "ORLOGONE"
inline constexpr std::uint32_t kRingCells = 256;                         // power of two, both rings
inline constexpr std::uint32_t kCellsPerChunk = 64;                      // ledger cells per chunk
inline constexpr std::uint32_t kDefaultLedgerCells = 1'000'000;
inline constexpr std::uint32_t kDefaultTouchCells = 65'536;  // power of two
// A sample of the keys that gets missed. The node drains a bounded part of it wherever it drains
// touches, before a client's puts, removals and flushes, and for a status; what overflows meanwhile
// is counted as lost. 24 KiB.
inline constexpr std::uint32_t kMissedCells = 1'024;  // power of two
inline constexpr std::uint64_t kDefaultArenaBytes = 8 * kMiB;
inline constexpr std::uint64_t kDefaultPlanBytes = 16 * kMiB;
// Limits of make_channel_geometry(): an attach request is outside input.
inline constexpr std::uint32_t kMaxLedgerCells = 1U << 26;
inline constexpr std::uint32_t kMinTouchCells = 64;
inline constexpr std::uint32_t kMaxTouchCells = 1U << 24;
inline constexpr std::uint64_t kMinPartBytes = 64 * kKiB;  // arena, plans
inline constexpr std::uint64_t kMaxPartBytes = kGiB;

// Sizes and offsets inside a channel; computed by both sides from the same four numbers.
struct ChannelGeometry {
  std::uint32_t ledger_chunks = 0;
  std::uint32_t touch_cells = 0;
  std::uint64_t arena_bytes = 0;
  std::uint64_t plan_bytes = 0;
  std::uint64_t report_offset = 0;
  std::uint64_t request_ring_offset = 0, response_ring_offset = 0, arena_offset = 0;
  std::uint64_t bitmap_offset = 0, cells_offset = 0, touch_offset = 0, missed_offset = 0;
  std::uint64_t plan_offset = 0;
  std::uint64_t total_bytes = 0;
  constexpr bool operator==(const ChannelGeometry&) const = default;
};
struct ChannelSizes {
  std::uint32_t ledger_cells = kDefaultLedgerCells;  // rounded up to whole chunks
  std::uint32_t touch_cells = kDefaultTouchCells;    // power of two
  std::uint64_t arena_bytes = kDefaultArenaBytes;    // rounded up to whole pages
  std::uint64_t plan_bytes = kDefaultPlanBytes;      // rounded up to whole pages
};
// Errors name the field, its value and its limits.
Result<ChannelGeometry> make_channel_geometry(const ChannelSizes& sizes);

// 64 bytes. `body` lies in the arena: request bytes first, then room for the answer.
struct RingMessage {
  std::uint32_t code = 0;             // protocol/messages.h
  std::uint32_t ring_generation = 0;  // grows at every reset by the client
  std::uint64_t request_id = 0;       // the answer carries the same
  std::uint32_t body_offset = 0;      // in the arena
  std::uint32_t body_bytes = 0;       // request + answer room (request), answer bytes (response)
  std::uint64_t args[5] = {0, 0, 0, 0, 0};
};
static_assert(sizeof(RingMessage) == 64);

// One missed key, as three words (missed_ring.h). Written by the client alone, cell by cell before
// missed_tail; a cell that is overwritten while the node reads it is dropped by the node.
struct MissedCell {
  Atomic<std::uint64_t> key_lo, key_hi;
  Atomic<std::uint64_t> row;  // NamespaceRow
};
static_assert(sizeof(MissedCell) == 24);

struct ChannelHeader {
  std::uint64_t magic;
  std::uint32_t abi;
  std::uint32_t client_id;
  ChannelSizes sizes;
  // Written by the client.
  alignas(64) Atomic<std::uint32_t> request_tail;
  alignas(64) Atomic<std::uint32_t> response_head;
  alignas(64) Atomic<std::uint32_t> client_sleeping;  // doorbell flag: client is about to sleep
  alignas(64) Atomic<std::uint32_t> touch_tail;       // total touches written, wraps
  Atomic<std::uint32_t> ring_generation;              // of the client's latest reset
  Atomic<std::uint32_t> missed_tail;                  // total missed keys written, wraps
  // Written by the node.
  alignas(64) Atomic<std::uint32_t> request_head;
  alignas(64) Atomic<std::uint32_t> response_tail;
  Atomic<std::uint64_t> reclaimed;  // kReclaimedMark ^ client id: ChannelView::mark_reclaimed()
};
static_assert(sizeof(ChannelHeader) <= kPageBytes);

// Typed view over a mapped channel; owns nothing.
class ChannelView {
 public:
  ChannelView() = default;
  // Node, once, over a zeroed span of geometry.total_bytes.
  static ChannelView format(std::span<std::byte> span, const ChannelGeometry& geometry,
                            const ChannelSizes& sizes, ClientId client);
  // The node after a restart: nothing in the span is looked at, for its client may have scribbled
  // on the header and its ledger must be scanned all the same. CHECKs the span's size.
  static ChannelView over(std::span<std::byte> span, const ChannelGeometry& geometry);
  // The client: over(), and magic and ABI are as format() wrote them. The geometry comes from the
  // attach answer, not from the span.
  static Result<ChannelView> open(std::span<std::byte> span, const ChannelGeometry& geometry);

  // Nothing is left of the client in the node; its channel is given back as soon as the keeper has
  // heard it. Said here as well because the keeper may die first: its successor still holds the
  // channel, and the server after this one finds out by the word. A client that forges its own
  // loses its pins at the next restart, as by a detach; 64 bits, so that a scribble does not do the
  // same.
  void mark_reclaimed(ClientId client) const;
  bool reclaimed(ClientId client) const;

  ChannelHeader& header() const { return *header_; }
  ClientReport& report() const { return *report_; }
  const ChannelGeometry& geometry() const { return geometry_; }
  RingMessage* request_cells() const { return requests_; }
  RingMessage* response_cells() const { return responses_; }
  std::span<std::byte> arena() const { return arena_; }
  std::span<std::byte> plans() const { return plans_; }
  Atomic<std::uint64_t>* bitmap() const { return bitmap_; }  // one bit a chunk
  std::uint32_t bitmap_words() const { return (geometry_.ledger_chunks + 63) / 64; }
  Atomic<std::uint64_t>* cells() const { return cells_; }      // LedgerCell::pack()
  Atomic<std::uint32_t>* touches() const { return touches_; }  // slot ids
  MissedCell* missed() const { return missed_; }

 private:
  ChannelGeometry geometry_;
  ChannelHeader* header_ = nullptr;
  ClientReport* report_ = nullptr;
  RingMessage* requests_ = nullptr;
  RingMessage* responses_ = nullptr;
  std::span<std::byte> arena_, plans_;
  Atomic<std::uint64_t>* bitmap_ = nullptr;
  Atomic<std::uint64_t>* cells_ = nullptr;
  Atomic<std::uint32_t>* touches_ = nullptr;
  MissedCell* missed_ = nullptr;
};

}  // namespace orlop::segment
