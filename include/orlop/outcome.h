// SPDX-License-Identifier: Apache-2.0
// What happened to one key of a put, one enum for all languages. Values are part of the channel
// format: never renumber.
#pragma once

#include <cstdint>
#include <string_view>

namespace orlop {

enum class Outcome : std::uint8_t {
  kPrepared = 0,     // put_start: memory reserved, write it and commit
  kStored = 1,       // commit: readable now
  kExists = 2,       // a readable value was there (or came first); no memory given
  kInFlight = 3,     // somebody else is writing it
  kGroupSplit = 4,   // another member of its group exists or is in flight; put it as a new group
  kNotAdmitted = 5,  // the admission policy refused, or the node is draining
  kNoSpace = 6,      // nothing could be freed in time; message carries the pool's state
  kOverQuota = 7,    // this client's cap of prepared bytes is reached
  kFlushed = 8,      // the namespace was flushed since put_start
  kEvicted = 9,      // commit: the group is no longer this plan's (aborted, taken back, removed)
  kNoNode = 10,      // no node answered in time: not stored
  kAborted = 11,     // the plan was aborted
};
inline constexpr int kOutcomeCount = 12;

// Stable lower-case name ("group_split").
std::string_view to_string(Outcome outcome);

// Why a read plan is shorter than asked for. One reason per plan: that of its first miss.
enum class MissReason : std::uint8_t {
  kNone = 0,             // all keys hit
  kNotFound = 1,         // no readable slot has this key in this namespace
  kRaced = 2,            // it was there and left while being pinned
  kLedgerFull = 3,       // no free ledger cells
  kPinBudget = 4,        // the client's pin budget is used up
  kNotAttached = 5,      // no node yet, or the node's memory has gone
  kGroupIncomplete = 6,  // the reader's group has a missing member
  kMismatch = 7,         // the bytes did not match their checksum
  kDeadline = 8,
};
inline constexpr int kMissReasonCount = 9;
std::string_view to_string(MissReason reason);

}  // namespace orlop
