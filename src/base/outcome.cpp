// SPDX-License-Identifier: Apache-2.0
#include "orlop/outcome.h"

namespace orlop {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPrepared:
      return "prepared";
    case Outcome::kStored:
      return "stored";
    case Outcome::kExists:
      return "exists";
    case Outcome::kInFlight:
      return "in_flight";
    case Outcome::kGroupSplit:
      return "group_split";
    case Outcome::kNotAdmitted:
      return "not_admitted";
    case Outcome::kNoSpace:
      return "no_space";
    case Outcome::kOverQuota:
      return "over_quota";
    case Outcome::kFlushed:
      return "flushed";
    case Outcome::kEvicted:
      return "evicted";
    case Outcome::kNoNode:
      return "no_node";
    case Outcome::kAborted:
      return "aborted";
  }
  return "unknown";  // a number from outside that is no outcome
}

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kNotFound:
      return "not_found";
    case MissReason::kRaced:
      return "raced";
    case MissReason::kLedgerFull:
      return "ledger_full";
    case MissReason::kPinBudget:
      return "pin_budget";
    case MissReason::kNotAttached:
      return "not_attached";
    case MissReason::kGroupIncomplete:
      return "group_incomplete";
    case MissReason::kMismatch:
      return "mismatch";
    case MissReason::kDeadline:
      return "deadline";
  }
  return "unknown";
}

}  // namespace orlop
