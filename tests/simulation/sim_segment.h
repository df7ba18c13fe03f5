// SPDX-License-Identifier: Apache-2.0
// One segment of the host: its memory, and what the oracles know of it. A cold start begins another
// one; the old one stays, because clients of before may still read it.
#pragma once

#include "base/ids.h"
#include "drain_oracle.h"
#include "memory.h"
#include "removal_oracle.h"
#include "slot_oracle.h"

namespace orlop::simulation {

struct SimSegment {
  SimSegment(SegmentId number, std::uint64_t capacity, std::uint64_t max_value_len,
             Verdict& verdict)
      : id(number), memory(capacity, max_value_len), slots(memory, removals, verdict) {}
  // The view of a process that mapped it while its header was right.
  const segment::ControlArea& area() const { return slots.area(); }

  const SegmentId id;
  const SegmentMemory memory;
  RemovalOracle removals;
  DrainOracle drains;
  SlotOracle slots;
  bool gone = false;            // nobody will serve it any more: its keeper pipes are closed
  bool header_damaged = false;  // in a part that a start has to check
};

}  // namespace orlop::simulation
