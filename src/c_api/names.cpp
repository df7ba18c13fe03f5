// SPDX-License-Identifier: Apache-2.0
// Versions and names; and the proof that C and C++ count alike.
#include "c_api/guard.h"
#include "orlop/client.h"
#include "orlop/orlop.h"
#include "segment/control_area.h"

namespace {

using orlop::ErrorCode;
using orlop::MissReason;
using orlop::Outcome;

template <class Enum>
constexpr bool same(int c, Enum cpp) {
  return c == static_cast<int>(cpp);
}

static_assert(same(ORLOP_INVALID_ARGUMENT, ErrorCode::kInvalidArgument));
static_assert(same(ORLOP_WRONG_STATE, ErrorCode::kWrongState));
static_assert(same(ORLOP_FORKED_CHILD, ErrorCode::kForkedChild));
static_assert(same(ORLOP_NO_NODE, ErrorCode::kNoNode));
static_assert(same(ORLOP_REFUSED, ErrorCode::kRefused));
static_assert(same(ORLOP_ABI_MISMATCH, ErrorCode::kAbiMismatch));
static_assert(same(ORLOP_DEADLINE, ErrorCode::kDeadline));
static_assert(same(ORLOP_NO_MEMORY, ErrorCode::kNoMemory));
static_assert(same(ORLOP_NAMESPACE_CONFLICT, ErrorCode::kNamespaceConflict));
static_assert(same(ORLOP_LIMIT, ErrorCode::kLimit));
static_assert(same(ORLOP_ADDRESS_IN_USE, ErrorCode::kAddressInUse));
static_assert(same(ORLOP_SYSTEM, ErrorCode::kSystem));
static_assert(same(ORLOP_CORRUPT, ErrorCode::kCorrupt));
static_assert(same(ORLOP_CLOSED, ErrorCode::kClosed));

static_assert(same(ORLOP_OUTCOME_PREPARED, Outcome::kPrepared));
static_assert(same(ORLOP_OUTCOME_STORED, Outcome::kStored));
static_assert(same(ORLOP_OUTCOME_EXISTS, Outcome::kExists));
static_assert(same(ORLOP_OUTCOME_IN_FLIGHT, Outcome::kInFlight));
static_assert(same(ORLOP_OUTCOME_GROUP_SPLIT, Outcome::kGroupSplit));
static_assert(same(ORLOP_OUTCOME_NOT_ADMITTED, Outcome::kNotAdmitted));
static_assert(same(ORLOP_OUTCOME_NO_SPACE, Outcome::kNoSpace));
static_assert(same(ORLOP_OUTCOME_OVER_QUOTA, Outcome::kOverQuota));
static_assert(same(ORLOP_OUTCOME_FLUSHED, Outcome::kFlushed));
static_assert(same(ORLOP_OUTCOME_EVICTED, Outcome::kEvicted));
static_assert(same(ORLOP_OUTCOME_NO_NODE, Outcome::kNoNode));
static_assert(same(ORLOP_OUTCOME_ABORTED, Outcome::kAborted));
static_assert(ORLOP_OUTCOME_COUNT == orlop::kOutcomeCount);

static_assert(same(ORLOP_MISS_NONE, MissReason::kNone));
static_assert(same(ORLOP_MISS_NOT_FOUND, MissReason::kNotFound));
static_assert(same(ORLOP_MISS_RACED, MissReason::kRaced));
static_assert(same(ORLOP_MISS_LEDGER_FULL, MissReason::kLedgerFull));
static_assert(same(ORLOP_MISS_PIN_BUDGET, MissReason::kPinBudget));
static_assert(same(ORLOP_MISS_NOT_ATTACHED, MissReason::kNotAttached));
static_assert(same(ORLOP_MISS_GROUP_INCOMPLETE, MissReason::kGroupIncomplete));
static_assert(same(ORLOP_MISS_MISMATCH, MissReason::kMismatch));
static_assert(same(ORLOP_MISS_DEADLINE, MissReason::kDeadline));
static_assert(ORLOP_MISS_REASON_COUNT == orlop::kMissReasonCount);

// Cuts a number from outside to the enum's type only when it is in there.
template <class Enum>
const char* name(int value) {
  constexpr int kMost = (1 << 8 * sizeof(std::underlying_type_t<Enum>)) - 1;
  // Names are literals, so a terminator follows each.
  return value < 0 || value > kMost ? "unknown" : to_string(static_cast<Enum>(value)).data();
}

}  // namespace

uint32_t orlop_api_version(void) {
  return ORLOP_API_VERSION;
}
const char* orlop_version(void) {
  return ORLOP_VERSION_TEXT;
}
uint32_t orlop_node_abi_version(void) {
  return orlop::segment::kAbiVersion;
}

const char* orlop_status_name(int status) {
  return status == ORLOP_OK ? "ok" : name<ErrorCode>(status);
}
const char* orlop_outcome_name(int outcome) {
  return name<Outcome>(outcome);
}
const char* orlop_miss_reason_name(int reason) {
  return name<MissReason>(reason);
}

const char* orlop_error_message(void) {
  return orlop::c_api::last_error_text();
}
