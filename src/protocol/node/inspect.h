// SPDX-License-Identifier: Apache-2.0
// Questions of people about slots, keys and clients, answered by the node machine without changing
// anything: NodeMachine::inspect(question, now).
//
// Work is bounded: a question looks at kInspectSlots slots and then goes on to the end of their
// slab, or at a part of one client's ledger: kInspectCells cells whose slots are looked up,
// kHolderCells that are only compared. What does not fit is asked for again with the cursor of the
// answer (ledgers: ask_whole() in runtime/inspect_port.h does it); the node goes on working between
// two questions, so sums over several answers are of no single moment.
// Thread: the node's one. Answers own what they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/node/missed_keys.h"
#include "segment/geometry.h"
#include "segment/slot_row.h"
#include "segment/slot_word.h"

namespace orlop::protocol {

// 1 MiB of the slot table: short beside the 10 ms a put may wait, long beside a question's way.
inline constexpr std::uint32_t kInspectSlots = 16'384;
inline constexpr std::uint32_t kInspectRows = 256;  // rows of a list in one answer, at most
// A cell's slot is a cache miss, as a row of the slot table is. Cells alone are streamed: 0.5 MiB.
inline constexpr std::uint32_t kInspectCells = kInspectSlots;
inline constexpr std::uint32_t kHolderCells = 65'536;

// ---- questions ---------------------------------------------------------------------------------
namespace question {

// Counts and bytes of all slots, slab by slab. 0 begins.
struct SlotSums {
  SlabId from;
};
// Slots that are not Free, by id. after: of the answer before, 0 begins.
struct SlotList {
  SlotId after{};
  std::optional<NamespaceRow> row{};   // its current contents only
  std::uint32_t limit = kInspectRows;  // at most kInspectRows count
};
struct Key {
  NamespaceRow row;
  KeyId key;
};
struct Client {
  ClientId client;
};
// The next part of KeyFacts::holders: living clients from `client` on, its ledger from `chunk` on.
struct Holders {
  SlotId slot;
  Generation generation;
  ClientId client{};
  std::uint32_t chunk = 0;
};
// The next part of ClientFacts::held.
struct Held {
  ClientId client;
  std::uint32_t chunk = 0;
};

}  // namespace question

using InspectQuestion = std::variant<question::SlotSums, question::SlotList, question::Key,
                                     question::Client, question::Holders, question::Held>;

// ---- answers -----------------------------------------------------------------------------------

struct SlotSums {
  struct States {
    std::uint64_t slots[segment::kSlotStateCount] = {};  // by state; doomed ones are Retiring too
    std::uint64_t doomed = 0;
  };
  struct Class : States {
    std::uint32_t slot_pages = 0;  // slot size in 4 KiB
    std::uint32_t slabs = 0, unused_slabs = 0;
    // Of Free slots side by side inside one slab.
    std::uint64_t free_runs = 0, longest_free_run = 0;
  };
  struct Namespace : States {
    std::optional<NamespaceRow> row;  // none: flushed, not yet given back
    std::uint64_t slot_bytes = 0;     // memory of its slots
    std::uint64_t value_bytes = 0;    // of these, used by values
  };
  std::vector<Class> classes;         // by slot size
  std::vector<Namespace> namespaces;  // by row, flushed last; Free slots belong to nobody
  std::uint32_t common_slabs = 0;     // of those looked at: without a size class
  std::optional<SlabId> next;         // where to go on; none: that was all
};

struct SlotFacts {
  SlotId slot;
  segment::SlotWord word;
  segment::SlotFields fields;  // as the row holds them
  std::uint64_t checksum = 0;  // 0 before the commit
  std::uint64_t slot_bytes = 0;
  std::optional<NamespaceRow> row;  // none: flushed
  MonoNs since_access = 0;          // in steps of 4 s; wraps after 72 h
};

struct SlotList {
  std::vector<SlotFacts> slots;
  std::optional<SlotId> next;  // pass as `after`; none: that was all
};

// Who reads a slot.
struct Holders {
  struct Holder {
    ClientId client;
    std::string name;
    std::uint64_t pages = 0;  // ledger cells that name the slot
  };
  std::vector<Holder> clients;            // by id
  std::optional<question::Holders> next;  // none: that was all
  void append(Holders part);              // part: the answer to `next`
};

// What a client reads.
struct Held {
  struct Pins {
    std::optional<NamespaceRow> row;  // none: flushed, or the cell names no slot
    std::uint64_t pages = 0, bytes = 0;
  };
  struct Page {  // one ledger cell
    SlotId slot;
    Generation generation;
    bool valid = false;  // the slot is still of that generation; what follows is of it
    std::optional<NamespaceRow> row;
    KeyId key;
    segment::SlotState state = segment::SlotState::kFree;
  };
  std::uint64_t pages = 0, bytes = 0;
  std::vector<Pins> by_row;            // none last
  std::vector<Page> some;              // the first kInspectRows
  std::optional<question::Held> next;  // none: that was all
  void append(const Held& part);       // part: the answer to `next`
};

struct KeyFacts {
  struct Parent {
    SlotId slot;
    bool present = false;  // still readable, of that generation
    KeyId key;             // if present
  };
  std::optional<SlotFacts> slot;  // readable, or being written
  // Of its group, in order; the first kInspectRows.
  std::vector<SlotId> members;
  std::uint32_t member_count = 0;
  std::optional<Parent> parent;  // none: a root
  ClientId writer;
  std::string writer_name;  // empty: has gone
  MonoNs put_age = 0;       // of a put that is open
  Holders holders;
  bool node_pinned = false;  // its checksum is being checked
  // Other namespaces of the family (other ranks) that hold the same page.
  std::vector<NamespaceRow> also_in;
  // Not present: why and when it left, if the node still remembers.
  std::optional<GoneKeys::Gone> left;
};

struct ClientFacts {
  struct Put {
    PutId put;
    std::optional<NamespaceRow> row;
    MonoNs age = 0;
    std::uint32_t open_slots = 0, open_groups = 0;
  };
  ClientId client;
  std::string name;
  bool dead = false, held_by_fork = false, lost = false;
  std::uint64_t prepared_slots = 0, prepared_bytes = 0;
  std::uint64_t open_puts = 0, waiting_puts = 0;
  std::uint64_t false_mismatches = 0;
  std::vector<Put> puts;  // oldest id first; the first kInspectRows
  Held held;              // nothing of a dead client
};

// Error kInvalidArgument: the row is not open, no such client, a cursor outside the segment.
using InspectAnswer = std::variant<Error, SlotSums, SlotList, KeyFacts, ClientFacts, Holders, Held>;

}  // namespace orlop::protocol
