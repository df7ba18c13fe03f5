// SPDX-License-Identifier: Apache-2.0
// The slot oracle's view of groups: whole or not at all, also across the server's death.
#include <algorithm>
#include <string>

#include "process.h"
#include "segment/key_index.h"
#include "slot_oracle.h"

namespace orlop::simulation {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;

bool SlotOracle::GroupView::all_present() const {
  return members.size() == length() &&
         std::all_of(members.begin(), members.end(), [](const Member& member) {
           return member.word.readable() ||
                  (member.word.state == SlotState::kRetiring && !member.word.doomed());
         });
}

bool SlotOracle::GroupView::any_readable() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.word.readable(); });
}

std::map<SlotOracle::GroupName, SlotOracle::GroupView> SlotOracle::groups() const {
  std::map<GroupName, GroupView> all;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& row = area_.slot(SlotId{i});
    const SlotWord word = row.load_word();
    if (word.state == SlotState::kFree || damaged_.contains({SlotId{i}, word.generation})) continue;
    const segment::SlotFields fields = row.load_fields();
    all[{fields.put, fields.group.group_number}].members.push_back({SlotId{i}, word, fields.group});
  }
  return all;
}

void SlotOracle::server_died(bool serving) {
  const Unobserved quiet;
  // Between damage and the next recovery a reader may enter what is left of a group.
  if (!damage_is_fresh_) check_groups();
  index_is_built(false);
  if (!serving) return;
  kept_.clear();
  for (const auto& [name, group] : groups()) {
    NamespaceRow row;
    if (!group.all_present()) {
      torn_.insert(name);
    } else if (namespace_current(group.members.front().slot, &row)) {
      for (const Member& member : group.members) kept_[member.slot] = member.word.generation;
    }
  }
}

void SlotOracle::server_recovered() {
  const Unobserved quiet;
  damage_is_fresh_ = false;
  for (const auto& [slot, generation] : kept_) {
    const SlotRow& row = area_.slot(slot);
    const SlotWord word = row.load_word();
    if (word.generation != generation || word.state != SlotState::kCommitted) {
      verdict_.broken(Oracle::kRestart,
                      "restart lost " + name_of(slot, generation) + " of a whole group");
      continue;
    }
    const segment::IndexHit hit =
        segment::index_find(area_, area_.index_word(), row.load_key(), row.load_ns());
    if (hit.slot != slot)
      verdict_.broken(Oracle::kRestart,
                      "after a restart the index does not find " + name_of(slot, generation));
  }
  for (const auto& [name, group] : groups()) {
    if (!group.any_readable()) continue;
    const bool waits_for_its_commit =
        group.members.size() == group.length() &&
        std::all_of(group.members.begin(), group.members.end(), [](const Member& member) {
          return member.word.readable() || member.word.state == SlotState::kPrepared;
        });
    if (!waits_for_its_commit)
      verdict_.broken(Oracle::kA1, "after a restart half a group of put " +
                                       std::to_string(name.first.value) + " is readable");
  }
  check_no_duplicates();
  index_is_built(true);
}

void SlotOracle::check_groups() {
  const Unobserved quiet;
  if (!formatted_) return;
  for (const auto& [name, group] : groups()) {
    const bool first_readable = std::any_of(
        group.members.begin(), group.members.end(),
        [](const Member& member) { return member.place.index == 0 && member.word.readable(); });
    if (!first_readable) continue;
    const bool all_readable =
        group.members.size() == group.length() &&
        std::all_of(group.members.begin(), group.members.end(),
                    [](const Member& member) { return member.word.readable(); });
    if (!all_readable)
      verdict_.broken(Oracle::kA1, "a prefix reader enters half a group of put " +
                                       std::to_string(name.first.value));
  }
}

void SlotOracle::check_published() {
  const Unobserved quiet;
  for (const auto& [name, group] : groups()) {
    const auto has = [&members = group.members](SlotState state) {
      return std::any_of(members.begin(), members.end(),
                         [state](const Member& member) { return member.word.state == state; });
    };
    if (has(SlotState::kLocalReady) && !has(SlotState::kPrepared))
      verdict_.broken(Oracle::kV3, "a whole group of put " + std::to_string(name.first.value) +
                                       " is readable and not Committed");
  }
}

void SlotOracle::check_no_duplicates() {
  const Unobserved quiet;
  std::map<std::pair<KeyId, NamespaceIndex>, SlotId> seen;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& row = area_.slot(SlotId{i});
    if (!row.load_word().readable()) continue;
    if (!seen.emplace(std::pair{row.load_key(), row.load_ns()}, SlotId{i}).second)
      verdict_.broken(Oracle::kV3, "one page is readable twice, once in slot " + std::to_string(i));
  }
  check_index();
}

}  // namespace orlop::simulation
