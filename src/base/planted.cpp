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
