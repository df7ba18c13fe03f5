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
  kGenerationNotCompared,       // pin: a slot given out anew passes for the one looked up
  kDoomedFreedUnderReaders,     // scan: removed slots do not wait for their readers
  kHalfGroupEvicted,            // evict: of a pinned group the members without a pin are freed
  kHalfGroupRestored,           // evict: of a pinned group the last member stays hidden
  kReadableBeforeChecksum,      // commit: the word before the checksum
  kLedgerDroppedAtHangUp,  // scan: pins count no more when the socket is gone, the process is not
  kIndexNotClearedForRebuild,  // recovery: the new index is built over old entries
  kPreparedOfDeadOwnerKept,    // recovery: Prepared without a living owner is left
  kPutIdReusedAfterRestart,    // re-attach: put ids begin at 1 again
  kFlushForgetsOpenPuts,       // commit: a flush since put_start is not looked for
  kNamespaceIndexReused,       // namespaces: one index for two namespaces
  kIndexNotLookedUpAgain,      // pin, probe: a miss is believed though the index has moved
  kPinBudgetIgnored,           // scan: the cap on pins is never lowered
  kRepeatedCommitDropsGroup,   // commit: a second time for a committed group ends it
  kLateGrantNotAborted,        // session: memory granted to an abandoned put_start is kept
  kSnapshotForgetsCommits,     // re-attach: puts whose commit is kept are not named as held
  kSecondWriterStored,         // commit: a key that another writer stored is stored again
  kForkPipeIgnored,            // clients: a forked child does not count as a writer
  kWaitingPutAnsweredTwice,    // waiting: a put that was answered stays in the queue
  kPreparedCapIgnored,         // put: a client may have all memory Prepared
  kFamilyFlushForgetsRanks,    // flush: of a family only the rank that asked
  kMismatchBelieved,           // mismatch: the reporter's word counts, not the checksum
  kRetiringLostAtRestart,      // recovery: what eviction had hidden is not restored
  kPinsForgottenAtRestart,     // recovery: ledgers are not looked at
  kBytesLeftBehind,            // books: a removed slot's bytes still count as resident
  kTornRowKept,                // recovery: the checksum of a row is not compared
  kWakerWithoutFence,          // doorbell: the sleep flag is read before the ring's tail is stored
  kSleeperLooksFirst,          // doorbell: the ring is looked at before the sleep flag is stored
  kRingTailBeforeMessage,      // ring: a cell is published before it is filled
  kRingCellFreedBeforeCopy,    // ring: a cell is given back before it is read
  kOverflowNotCounted,         // index: an entry beside its home bucket leaves no trace there
  kGrowthForgetsNewEntry,      // index: an insert during a growth goes to the old place only
  kIndexSwitchedTooEarly,      // index: readers are sent to a place that is being filled
  kLostTouchesUncounted,       // touch ring: what was overwritten is nowhere counted
  kChunkBitNotSet,             // ledger: pins in a chunk whose bit is clear
  kStreamWithoutFence,         // copy: no sfence after non-temporal stores
  kFreePagePinned,             // pin: a slot that is no longer readable passes
  kGivenUpAsReady,             // abort: a slot that is given up becomes readable instead of free
  kLeftLocalReady,             // commit: the step of a group ends at LocalReady
  kVictimLeftHidden,           // evict: a victim that turns out pinned is not restored
  kWaitingDeadlineForgotten,   // waiting: nobody wakes for a put's budget
  kReclaimNotSaid,             // reclaim: the channel does not say that it is reclaimed
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
