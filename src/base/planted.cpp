// SPDX-License-Identifier: Apache-2.0
#include "base/planted.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace orlop {
namespace {

// In the order of the enum.
constexpr auto kNames = std::to_array<std::string_view>({
    "none",
    "identity_not_rechecked",
    "fence_missing",
    "free_without_scan",
    "chunk_bit_cleared_by_non_owner",
    "pinned_groups_never_given_back",
    "descriptors_before_keeper_ack",
    "prepared_of_lost_answer_leaked",
    "prepared_freed_under_writer",
    "posted_commit_forgotten",
    "arena_reused_at_deadline",
    "plan_ended_before_copies",
    "recovery_by_slot",
    "removed_group_resurrected",
    "gone_of_other_namespace",
    "drain_refuses_commits",
    "drain_forgotten_at_recover",
    "server_beside_old_one",
    "held_before_stored",
    "generation_not_compared",
    "doomed_freed_under_readers",
    "half_group_evicted",
    "half_group_restored",
    "readable_before_checksum",
    "ledger_dropped_at_hang_up",
    "index_not_cleared_for_rebuild",
    "prepared_of_dead_owner_kept",
    "put_id_reused_after_restart",
    "flush_forgets_open_puts",
    "namespace_index_reused",
    "index_not_looked_up_again",
    "pin_budget_ignored",
    "repeated_commit_drops_group",
    "late_grant_not_aborted",
    "snapshot_forgets_commits",
    "second_writer_stored",
    "fork_pipe_ignored",
    "waiting_put_answered_twice",
    "prepared_cap_ignored",
    "family_flush_forgets_ranks",
    "mismatch_believed",
    "retiring_lost_at_restart",
    "pins_forgotten_at_restart",
    "bytes_left_behind",
    "torn_row_kept",
    "waker_without_fence",
    "sleeper_looks_first",
    "ring_tail_before_message",
    "ring_cell_freed_before_copy",
    "overflow_not_counted",
    "growth_forgets_new_entry",
    "index_switched_too_early",
    "lost_touches_uncounted",
    "chunk_bit_not_set",
    "stream_without_fence",
    "free_page_pinned",
    "given_up_as_ready",
    "left_local_ready",
    "victim_left_hidden",
    "waiting_deadline_forgotten",
    "reclaim_not_said",
});
static_assert(kNames.size() == static_cast<std::size_t>(PlantedBug::kReclaimNotSaid) + 1,
              "every bug has a name");

constexpr auto kAll = [] {
  std::array<PlantedBug, kNames.size() - 1> bugs{};
  for (std::size_t i = 0; i < bugs.size(); ++i) bugs[i] = static_cast<PlantedBug>(i + 1);
  return bugs;
}();

}  // namespace

#ifdef ORLOP_SIMULATION
PlantedBug g_planted_bug = PlantedBug::kNone;
#endif

std::span<const PlantedBug> all_planted_bugs() {
  return kAll;
}

std::string_view to_string(PlantedBug bug) {
  const auto number = static_cast<std::size_t>(bug);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::optional<PlantedBug> planted_bug_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<PlantedBug>(found - kNames.begin());
}

}  // namespace orlop
