// SPDX-License-Identifier: Apache-2.0
#include "base/planted.h"

#include <array>

namespace orlop {
namespace {

constexpr std::array kAll = {
    PlantedBug::kIdentityNotRechecked,
    PlantedBug::kFenceMissing,
    PlantedBug::kFreeWithoutScan,
    PlantedBug::kChunkBitClearedByNonOwner,
    PlantedBug::kPinnedGroupsNeverGivenBack,
    PlantedBug::kDescriptorsBeforeKeeperAck,
    PlantedBug::kPreparedOfLostAnswerLeaked,
    PlantedBug::kPreparedFreedUnderWriter,
    PlantedBug::kPostedCommitForgotten,
    PlantedBug::kArenaReusedAtDeadline,
    PlantedBug::kPlanEndedBeforeCopies,
    PlantedBug::kRecoveryBySlot,
    PlantedBug::kRemovedGroupResurrected,
    PlantedBug::kGoneOfOtherNamespace,
    PlantedBug::kDrainRefusesCommits,
    PlantedBug::kDrainForgottenAtRecover,
    PlantedBug::kServerBesideOldOne,
    PlantedBug::kHeldBeforeStored,
    PlantedBug::kGenerationNotCompared,
    PlantedBug::kDoomedFreedUnderReaders,
    PlantedBug::kHalfGroupEvicted,
    PlantedBug::kHalfGroupRestored,
    PlantedBug::kReadableBeforeChecksum,
    PlantedBug::kLedgerDroppedAtHangUp,
    PlantedBug::kIndexNotClearedForRebuild,
    PlantedBug::kPreparedOfDeadOwnerKept,
    PlantedBug::kPutIdReusedAfterRestart,
    PlantedBug::kFlushForgetsOpenPuts,
    PlantedBug::kNamespaceIndexReused,
    PlantedBug::kIndexNotLookedUpAgain,
    PlantedBug::kPinBudgetIgnored,
    PlantedBug::kRepeatedCommitDropsGroup,
    PlantedBug::kLateGrantNotAborted,
    PlantedBug::kSnapshotForgetsCommits,
    PlantedBug::kSecondWriterStored,
    PlantedBug::kForkPipeIgnored,
    PlantedBug::kWaitingPutAnsweredTwice,
    PlantedBug::kPreparedCapIgnored,
    PlantedBug::kFamilyFlushForgetsRanks,
    PlantedBug::kMismatchBelieved,
    PlantedBug::kRetiringLostAtRestart,
    PlantedBug::kPinsForgottenAtRestart,
    PlantedBug::kBytesLeftBehind,
    PlantedBug::kTornRowKept,
    PlantedBug::kWakerWithoutFence,
    PlantedBug::kSleeperLooksFirst,
    PlantedBug::kRingTailBeforeMessage,
    PlantedBug::kRingCellFreedBeforeCopy,
    PlantedBug::kOverflowNotCounted,
    PlantedBug::kGrowthForgetsNewEntry,
    PlantedBug::kIndexSwitchedTooEarly,
    PlantedBug::kLostTouchesUncounted,
    PlantedBug::kChunkBitNotSet,
    PlantedBug::kStreamWithoutFence,
};

}  // namespace

#ifdef ORLOP_SIMULATION
PlantedBug g_planted_bug = PlantedBug::kNone;
#endif

std::span<const PlantedBug> all_planted_bugs() {
  return kAll;
}

std::string_view to_string(PlantedBug bug) {
  switch (bug) {
    case PlantedBug::kNone:
      return "none";
    case PlantedBug::kIdentityNotRechecked:
      return "identity_not_rechecked";
    case PlantedBug::kFenceMissing:
      return "fence_missing";
    case PlantedBug::kFreeWithoutScan:
      return "free_without_scan";
    case PlantedBug::kChunkBitClearedByNonOwner:
      return "chunk_bit_cleared_by_non_owner";
    case PlantedBug::kPinnedGroupsNeverGivenBack:
      return "pinned_groups_never_given_back";
    case PlantedBug::kDescriptorsBeforeKeeperAck:
      return "descriptors_before_keeper_ack";
    case PlantedBug::kPreparedOfLostAnswerLeaked:
      return "prepared_of_lost_answer_leaked";
    case PlantedBug::kPreparedFreedUnderWriter:
      return "prepared_freed_under_writer";
    case PlantedBug::kPostedCommitForgotten:
      return "posted_commit_forgotten";
    case PlantedBug::kArenaReusedAtDeadline:
      return "arena_reused_at_deadline";
    case PlantedBug::kPlanEndedBeforeCopies:
      return "plan_ended_before_copies";
    case PlantedBug::kRecoveryBySlot:
      return "recovery_by_slot";
    case PlantedBug::kRemovedGroupResurrected:
      return "removed_group_resurrected";
    case PlantedBug::kGoneOfOtherNamespace:
      return "gone_of_other_namespace";
    case PlantedBug::kDrainRefusesCommits:
      return "drain_refuses_commits";
    case PlantedBug::kDrainForgottenAtRecover:
      return "drain_forgotten_at_recover";
    case PlantedBug::kServerBesideOldOne:
      return "server_beside_old_one";
    case PlantedBug::kHeldBeforeStored:
      return "held_before_stored";
    case PlantedBug::kGenerationNotCompared:
      return "generation_not_compared";
    case PlantedBug::kDoomedFreedUnderReaders:
      return "doomed_freed_under_readers";
    case PlantedBug::kHalfGroupEvicted:
      return "half_group_evicted";
    case PlantedBug::kHalfGroupRestored:
      return "half_group_restored";
    case PlantedBug::kReadableBeforeChecksum:
      return "readable_before_checksum";
    case PlantedBug::kLedgerDroppedAtHangUp:
      return "ledger_dropped_at_hang_up";
    case PlantedBug::kIndexNotClearedForRebuild:
      return "index_not_cleared_for_rebuild";
    case PlantedBug::kPreparedOfDeadOwnerKept:
      return "prepared_of_dead_owner_kept";
    case PlantedBug::kPutIdReusedAfterRestart:
      return "put_id_reused_after_restart";
    case PlantedBug::kFlushForgetsOpenPuts:
      return "flush_forgets_open_puts";
    case PlantedBug::kNamespaceIndexReused:
      return "namespace_index_reused";
    case PlantedBug::kIndexNotLookedUpAgain:
      return "index_not_looked_up_again";
    case PlantedBug::kPinBudgetIgnored:
      return "pin_budget_ignored";
    case PlantedBug::kRepeatedCommitDropsGroup:
      return "repeated_commit_drops_group";
    case PlantedBug::kLateGrantNotAborted:
      return "late_grant_not_aborted";
    case PlantedBug::kSnapshotForgetsCommits:
      return "snapshot_forgets_commits";
    case PlantedBug::kSecondWriterStored:
      return "second_writer_stored";
    case PlantedBug::kForkPipeIgnored:
      return "fork_pipe_ignored";
    case PlantedBug::kWaitingPutAnsweredTwice:
      return "waiting_put_answered_twice";
    case PlantedBug::kPreparedCapIgnored:
      return "prepared_cap_ignored";
    case PlantedBug::kFamilyFlushForgetsRanks:
      return "family_flush_forgets_ranks";
    case PlantedBug::kMismatchBelieved:
      return "mismatch_believed";
    case PlantedBug::kRetiringLostAtRestart:
      return "retiring_lost_at_restart";
    case PlantedBug::kPinsForgottenAtRestart:
      return "pins_forgotten_at_restart";
    case PlantedBug::kBytesLeftBehind:
      return "bytes_left_behind";
    case PlantedBug::kTornRowKept:
      return "torn_row_kept";
    case PlantedBug::kWakerWithoutFence:
      return "waker_without_fence";
    case PlantedBug::kSleeperLooksFirst:
      return "sleeper_looks_first";
    case PlantedBug::kRingTailBeforeMessage:
      return "ring_tail_before_message";
    case PlantedBug::kRingCellFreedBeforeCopy:
      return "ring_cell_freed_before_copy";
    case PlantedBug::kOverflowNotCounted:
      return "overflow_not_counted";
    case PlantedBug::kGrowthForgetsNewEntry:
      return "growth_forgets_new_entry";
    case PlantedBug::kIndexSwitchedTooEarly:
      return "index_switched_too_early";
    case PlantedBug::kLostTouchesUncounted:
      return "lost_touches_uncounted";
    case PlantedBug::kChunkBitNotSet:
      return "chunk_bit_not_set";
    case PlantedBug::kStreamWithoutFence:
      return "stream_without_fence";
  }
  return "unknown";
}

std::optional<PlantedBug> planted_bug_from_name(std::string_view name) {
  if (name == to_string(PlantedBug::kNone)) return PlantedBug::kNone;
  for (const PlantedBug bug : kAll) {
    if (to_string(bug) == name) return bug;
  }
  return std::nullopt;
}

}  // namespace orlop
