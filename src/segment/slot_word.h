// SPDX-License-Identifier: Apache-2.0
// The state word of a slot: one aligned u64, written only by the node, last, with release.
//
//   63........32 31....24 23....16 15......0
//   generation   state    flags    recency
//
// State x operation (who may do what; races by name in docs/architecture/segment.md):
//
//   state       | next states                     | readable | memory may be
//   ------------+---------------------------------+----------+-----------------------------------
//   Free        | Prepared (generation + 1)       | no       | nobody's
//   Prepared    | LocalReady, Free                | no       | written by its one writer
//   LocalReady  | Committed, Retiring|doomed      | yes      | read by anyone who pinned it
//   Committed   | Retiring, Retiring|doomed       | yes      | read by anyone who pinned it
//   Retiring    | Committed (restored), Free      | no       | read by those who pinned it before
//   Retiring|d  | Free                            | no       | read by those who pinned it before
//
// Generation grows when a slot is given out (Free -> Prepared) and never goes back.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace orlop::segment {

enum class SlotState : std::uint8_t {
  kFree = 0,
  kPrepared = 1,
  kLocalReady = 2,
  kCommitted = 3,
  kRetiring = 4,
};
inline constexpr int kSlotStateCount = 5;

inline constexpr std::uint8_t kFlagDoomed = 1;  // only together with Retiring

struct SlotWord {
  Generation generation;
  SlotState state = SlotState::kFree;
  std::uint8_t flags = 0;
  std::uint16_t recency = 0;  // coarse clock of the last access, node's units, wraps

  constexpr bool operator==(const SlotWord&) const = default;
  constexpr bool readable() const {
    return state == SlotState::kLocalReady || state == SlotState::kCommitted;
  }
  constexpr bool doomed() const { return (flags & kFlagDoomed) != 0; }

  constexpr std::uint64_t pack() const {
    return (std::uint64_t{generation.value} << 32) | (std::uint64_t(state) << 24) |
           (std::uint64_t{flags} << 16) | recency;
  }
  static constexpr SlotWord unpack(std::uint64_t w) {
    return SlotWord{
        Generation{static_cast<std::uint32_t>(w >> 32)}, static_cast<SlotState>((w >> 24) & 0xff),
        static_cast<std::uint8_t>((w >> 16) & 0xff), static_cast<std::uint16_t>(w & 0xffff)};
  }
};

// One ledger cell: which slot, in which generation, is held. 0 = empty (slot id 0 does not exist).
struct LedgerCell {
  SlotId slot;
  Generation generation;
  constexpr std::uint64_t pack() const {
    return (std::uint64_t{slot.value} << 32) | generation.value;
  }
  static constexpr LedgerCell unpack(std::uint64_t c) {
    return LedgerCell{SlotId{static_cast<std::uint32_t>(c >> 32)},
                      Generation{static_cast<std::uint32_t>(c)}};
  }
};

}  // namespace orlop::segment
