// SPDX-License-Identifier: Apache-2.0
// The hazard protocol, both halves in one header: how a client pins without asking, and how the
// node takes a slot back. Design 10 section 4; race table in docs/architecture/segment.md.
//
//   client                                   node (one uninterrupted step)
//   1 look up hints                          1 words of the victims -> Retiring
//   2 cells <- {slot, generation}            2 full fence
//   3 full fence                             3 scan the used chunks of all ledgers
//   4 re-read word AND identity              4 a pinned member: group restored; else freed
//
// Either the node's scan sees the cell, or the client's re-read sees Retiring (or a later state).
// The identity is compared again in step 4, because between 1 and 2 the slot may have been freed
// and given to another key with the generation that step 1 read.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/key_index.h"

namespace orlop::segment {

struct PinnedSlot {
  SlotId slot;
  Generation generation;
  std::uint32_t value_len = 0;
  std::uint64_t checksum = 0;  // stored checksum of the value
};

enum class PinStop : std::uint8_t { kAllHit, kNotFound, kRaced };
struct PinResult {
  std::uint32_t pinned = 0;  // length of the pinned prefix
  PinStop stop = PinStop::kAllHit;
};

// Pins the longest prefix of `keys` in namespace `ns`.
// cells: at least keys.size() indices of empty cells whose chunks' bits are set (ThreadLedger);
// cell i then holds key i. Cells beyond the pinned prefix are 0 again on return.
// out: at least keys.size(); the first `pinned` are filled.
// No syscall, no lock. Looks misses up again (at most twice) when the index word changed meanwhile.
PinResult pin_prefix(const ControlArea& area, const ChannelView& channel,
                     std::span<const std::uint32_t> cells, std::span<const KeyId> keys,
                     NamespaceIndex ns, std::span<PinnedSlot> out);

// Presence only: bit i of `bitmap` (64 keys a word) = readable now. Pins nothing. Returns the
// prefix.
std::uint32_t probe(const ControlArea& area, std::span<const KeyId> keys, NamespaceIndex ns,
                    std::span<std::uint64_t> bitmap);

// Writes the touches of a finished read, given in prefix order: leaf first, root last. One producer
// at a time per channel (caller's mutex), lossy.
void touch(const ChannelView& channel, std::span<const PinnedSlot> prefix);

}  // namespace orlop::segment
