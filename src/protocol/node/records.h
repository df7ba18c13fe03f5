// SPDX-License-Identifier: Apache-2.0
// Private records of the node machine: what it remembers about a client, an open put, a put that
// waits for memory, a value under verification.
//
// All containers that are ever walked are ordered by ids, so that a run is the same every time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "protocol/node/node_machine.h"
#include "protocol/node/size_classes.h"
#include "segment/missed_ring.h"
#include "segment/report_counters.h"
#include "segment/touch_ring.h"

namespace orlop::protocol {

struct ClientRecord {
  ClientId id;
  segment::ChannelView channel;
  std::string name;
  segment::TouchReader touches;
  segment::MissedReader missed;
  segment::ReportCounters reported;  // the highest values read; what grows is added to the sums
  MonoNs since = 0;                  // this server has had it
  bool dead = false;                 // pidfd fired: its ledger and touches no longer count
  bool fork_open = false;  // dead, but a forked child may still write into its Prepared slots
  bool lost = false;       // no socket; the process may live
  bool checking = false;   // one of its mismatch reports is being checked
  std::uint64_t false_mismatches = 0;
  std::uint64_t open_puts = 0;
  std::uint64_t prepared_slots = 0;
  std::uint64_t prepared_bytes = 0;
  std::uint64_t pinned_cells = 0;  // at the last pass over all ledgers
  std::uint64_t pinned_bytes = 0;  // then
};

// A put that has Prepared slots.
struct PutRecord {
  PutId id;
  ClientRecord* client = nullptr;  // stays while it has open puts
  NamespaceIndex ns;  // of its put_start; a flush since then makes its commit answer `flushed`
  std::optional<std::uint32_t> row;  // none: flushed before a restart
  MonoNs started = 0;
  std::uint64_t slot_bytes = 0;
  // A key of it has, or had, another writer: its commit must look whether the key is stored by now.
  // Else its in-flight entries have kept everybody away since put_start. A Prepared slot that the
  // in-flight map does not name (it was taken over) always belongs to a contended put.
  bool contended = false;
  std::uint32_t open_slots = 0;  // Prepared
  std::vector<SlotId> leaders;   // first members of its groups that are not ended
};

// One row of the namespace table.
struct NamespaceRecord {
  NamespaceTraffic traffic;
  NamespaceIndex flushed_index;  // that of before the last flush; 0: none by this server
  MonoNs flushed_at = 0;         // that flush
  std::uint32_t family = 0;      // number of the family in Node::families_
};

// By put id, hence by client and then by its sequence.
using PutTable = std::map<PutId, PutRecord>;

// A put_start that found no memory and waits for it, nothing reserved.
struct WaitingPut {
  event::PutStart put;  // spans point into the vectors below
  std::vector<KeyId> keys;
  std::vector<std::uint32_t> group_lens;
  NamespaceIndex ns;  // at arrival: bytes of before a flush must not get the new index
  SizeClasses::Number size_class = 0;
  MonoNs deadline = 0;
};

// A slot that the node itself holds while its checksum is computed.
struct NodePin {
  ClientId reporter;
  SlotId slot;
  Generation generation;
};

}  // namespace orlop::protocol
