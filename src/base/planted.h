// SPDX-License-Identifier: Apache-2.0
// Planted bugs: deliberate defects that the simulator and the interleaving explorer must find.
// They exist only in simulation builds (ORLOP_SIMULATION) and are off until a test turns one on.
//
//   if (!PLANTED(kFenceMissing)) full_fence();
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace orlop {

enum class PlantedBug {
  kNone,
  kIdentityNotRechecked,        // pin: generation compared, KeyId and namespace not
  kFenceMissing,                // retire: no full fence between marking and scanning
  kFreeWithoutScan,             // retire: ledgers not looked at
  kChunkBitClearedByNonOwner,   // ledger: a foreign release clears the chunk's bit
  kPinnedGroupsNeverGivenBack,  // scan: unpinned groups not returned to the policy
  kDescriptorsBeforeKeeperAck,  // attach: client gets memory the keeper does not hold yet
  kPreparedOfLostAnswerLeaked,  // re-attach: Prepared not in the snapshot is kept
  kPreparedFreedUnderWriter,    // recovery: Prepared of a living client is freed
  kPostedCommitForgotten,       // re-attach: an unanswered commit is not posted again
  kArenaReusedAtDeadline,       // session: arena space of an unanswered request is given out again
  kPlanEndedBeforeCopies,       // session: release/abort ignores registered copies
  kRecoveryBySlot,              // recovery: decides by slot instead of by group
  kRemovedGroupResurrected,     // recovery: a doomed Retiring slot counts as present
  kGoneOfOtherNamespace,        // missed keys: what left another rank's namespace counts as ours
  kDrainRefusesCommits,         // drain: puts that were under way lose their pages
  kDrainForgottenAtRecover,     // recovery: a draining node takes puts again
  kServerBesideOldOne,          // upgrade: the new server starts before the old one is dead
  kHeldBeforeStored,            // keeper: client gets memory that a restarted keeper will not find
};

// Every bug but kNone, in the order of the enum. A new bug also goes into planted.cpp.
std::span<const PlantedBug> all_planted_bugs();
// Stable lower-case name ("fence_missing"), for command lines and reports.
std::string_view to_string(PlantedBug bug);
std::optional<PlantedBug> planted_bug_from_name(std::string_view name);

#ifdef ORLOP_SIMULATION
extern PlantedBug g_planted_bug;  // set by the test that runs the simulation
#define PLANTED(bug) (::orlop::g_planted_bug == ::orlop::PlantedBug::bug)
#else
#define PLANTED(bug) false
#endif

}  // namespace orlop
