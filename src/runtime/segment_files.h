// SPDX-License-Identifier: Apache-2.0
// The memory of a node: creating it (keeper) and mapping it (server).
//
// Order of creation: sizes -> memory files (no memory yet) -> budget check with the numbers -> NUMA
// policy -> visible parallel first touch -> proof of what was got. Nothing is allocated before the
// budget was checked.
// Thread: none; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/first_touch.h"
#include "platform/mapping.h"
#include "platform/memory_budget.h"
#include "platform/memory_file.h"
#include "platform/numa.h"
#include "segment/control_area.h"
#include "segment/geometry.h"

namespace orlop::runtime {

struct MemoryOptions {
  // One of the two forms. capacity: physical bytes of the value area, rounded down to whole slabs.
  std::uint64_t capacity = 0;
  // payload_bytes of values of payload_value_len, rounded up to whole slabs, tail loss counted.
  std::uint64_t payload_value_len = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t max_value_len = segment::kDefaultMaxValueLen;
  bool touch = true;  // off: benches and sparse use; memory is then taken when it is first written
  HugePages huge = HugePages::kTry;
  NumaPolicy numa;
};
// Errors: none or both forms given, sizes out of limits; the numbers are named.
Result<segment::Geometry> geometry_of(const MemoryOptions& options);

// Memory that the daemon's two processes take apart from the segment: code, stacks, bookkeeping of
// a node without slots. Measured 20 MiB; the rest is air for a few hundred thousand slots.
inline constexpr std::uint64_t kPrivateBytes = 64 * kMiB;

struct SegmentFiles {
  SegmentId id;
  segment::Geometry geometry;
  MemoryFile control;
  MemoryFile value;
  // What was achieved, for log and status.
  std::string budget_text;
  std::uint64_t touched_bytes = 0;
  std::uint64_t huge_bytes = 0;  // proven by smaps; 0 when not touched
  std::map<int, std::uint64_t> bytes_by_node;
};
// Errors: kInvalidArgument (options), kNoMemory (numbers and remedy in the message), kSystem,
// kClosed (progress said stop). The control area is formatted.
Result<SegmentFiles> create_segment(const MemoryOptions& options, const TouchProgress& progress,
                                    const MemorySources& sources = {});
// Whether the configuration could fit if nothing else ran: if not, waiting is of no use.
// Errors: kNoMemory with the numbers.
Result<void> fits_at_all(const MemoryOptions& options, const MemorySources& sources = {});
// Empties the control area and formats it again, for a cold start after a server died in its cold
// start. Only while nobody maps it.
Result<void> format_again(const SegmentFiles& files);

// The server's view. Both areas mapped read-write.
struct SegmentMap {
  MemoryFile control_file;
  MemoryFile value_file;
  FileDescriptor control_read_only;  // what clients get
  Mapping control;
  Mapping value;
  segment::ControlArea area;
};
// Errors: kCorrupt (magic, ABI, geometry or sizes: only a cold start on new memory helps), kSystem,
// kNoMemory.
Result<SegmentMap> map_segment(FileDescriptor control, FileDescriptor value,
                               std::uint64_t control_bytes, std::uint64_t value_bytes);

}  // namespace orlop::runtime
