// SPDX-License-Identifier: Apache-2.0
#include "eviction/lru.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace orlop {

LruPolicy::LruPolicy(std::uint32_t max_slot_id)
    : rows_(std::size_t{max_slot_id} + 1), classes_(kMaxClasses) {}

// ---- what happens to groups ----

void LruPolicy::inserted(const GroupInfo& info) {
  CHECK(known(info.group) && info.parent.value < rows_.size(), "slot id out of range");
  CHECK(info.group != info.parent, "a group cannot be its own parent");
  CHECK(info.members >= 1 && info.members <= std::numeric_limits<std::uint16_t>::max());
  CHECK(info.class_id < kMaxClasses && info.slot_size_pages >= 1);
  const std::uint32_t id = info.group.value;
  CHECK(state_of(id) == State::kAbsent, "the group is here already");

  SizeClass& size_class = classes_[info.class_id];
  CHECK(size_class.present == 0 || size_class.slot_size_pages == info.slot_size_pages,
        "one class has one slot size");
  size_class.slot_size_pages = info.slot_size_pages;
  ++size_class.present;
  highest_used_ = std::max({highest_used_, id, info.parent.value});

  Row& row = rows_[id];
  row.members = static_cast<std::uint16_t>(info.members);
  row.class_id = info.class_id;
  link_to_parent(row, info.parent.value);
  size_class.resident_bytes += bytes_of(id);
  ++clock_;
  list_young(id);
}

void LruPolicy::accessed(GroupRef group) {
  if (!known(group)) return;
  const State state = state_of(group.value);
  if (state != State::kListed && state != State::kParked) return;
  ++clock_;
  take_off(group.value);
  list_young(group.value);
}

void LruPolicy::pinned(GroupRef group) {
  if (!known(group)) return;
  const State state = state_of(group.value);
  if (state != State::kListed && state != State::kParked) return;
  take_off(group.value);
  set_state(group.value, State::kPinned);
  push_young(pinned_, group.value);
}

void LruPolicy::unpinned(GroupRef group) {
  if (!known(group) || state_of(group.value) != State::kPinned) return;
  take_off(group.value);
  list_young(group.value);
}

void LruPolicy::removed(GroupRef group) {
  if (!known(group)) return;
  const std::uint32_t id = group.value;
  if (state_of(id) == State::kAbsent) {
    cut_children(id);
    return;
  }
  if (state_of(id) == State::kPending) {
    pending_[rows_[id].older] = 0;  // its victim can only be settled as obsolete now
  } else {
    take_off(id);
    class_of(id).resident_bytes -= bytes_of(id);
  }
  forget(id);
}

// ---- victims ----

std::uint64_t LruPolicy::evict_some(std::uint16_t class_id, std::uint64_t bytes,
                                    std::uint32_t max_groups, std::vector<Victim>& out) {
  CHECK(class_id < kMaxClasses);
  SizeClass& size_class = classes_[class_id];
  std::uint64_t selected_bytes = 0;
  std::uint32_t selected_groups = 0;
  while (selected_bytes < bytes && selected_groups < max_groups && size_class.list.oldest != 0) {
    const std::uint32_t id = size_class.list.oldest;
    if (held_by_children(id)) {
      park(id);
      continue;
    }
    select_group(id, out);
    selected_bytes += out.back().bytes();
    ++selected_groups;
  }
  return selected_bytes;
}

bool LruPolicy::has_resident_children(const Victim& victim) const {
  const std::uint32_t id = pending_[ticket_of(victim)];
  return id != 0 && held_by_children(id);
}

void LruPolicy::freed(Victim&& victim) {
  const std::uint32_t id = end_pending(victim);
  CHECK(id != 0, "the group was removed meanwhile: its victim is obsolete");
  forget(id);
  settle(victim, Fate::kFreed);
}

void LruPolicy::restored_pinned(Victim&& victim) {
  const std::uint32_t id = end_pending(victim);
  CHECK(id != 0, "the group was removed meanwhile: its victim is obsolete");
  const Row& row = rows_[id];
  if (link_valid(row)) child_no_longer_departing(row.parent);
  class_of(id).resident_bytes += bytes_of(id);
  set_state(id, State::kPinned);
  push_young(pinned_, id);
  settle(victim, Fate::kRestored);
}

void LruPolicy::obsolete(Victim&& victim) {
  const std::uint32_t id = end_pending(victim);
  if (id != 0) forget(id);
  settle(victim, Fate::kObsolete);
}

void LruPolicy::select_group(std::uint32_t id, std::vector<Victim>& out) {
  take_off(id);
  SizeClass& size_class = class_of(id);
  const std::uint64_t bytes = bytes_of(id);
  size_class.resident_bytes -= bytes;

  std::uint32_t ticket = 0;
  if (free_tickets_.empty()) {
    ticket = static_cast<std::uint32_t>(pending_.size());
    pending_.push_back(id);
  } else {
    ticket = free_tickets_.back();
    free_tickets_.pop_back();
    pending_[ticket] = id;
  }
  set_state(id, State::kPending);
  rows_[id].older = ticket;
  rows_[id].younger = 0;
  const Row& row = rows_[id];
  out.push_back(
      select(GroupRef{id}, static_cast<std::uint16_t>(row.class_id), row.members, bytes, ticket));
  if (link_valid(row)) {
    const std::uint32_t parent = row.parent;  // no reference may bind to a packed field
    ++departing_[parent];
    unpark_if_free(parent);
  }
}

// Gives the ticket back. Returns the victim's group, 0 if it was removed meanwhile.
std::uint32_t LruPolicy::end_pending(const Victim& victim) {
  const std::uint32_t ticket = ticket_of(victim);
  CHECK(ticket < pending_.size(), "the victim belongs to another policy");
  const std::uint32_t id = std::exchange(pending_[ticket], 0);
  CHECK(id == 0 || (id == victim.group().value && state_of(id) == State::kPending));
  free_tickets_.push_back(ticket);
  return id;
}

// ---- parents and children ----

bool LruPolicy::link_valid(const Row& child) const {
  return child.parent != 0 && rows_[child.parent].epoch == child.parent_epoch;
}

bool LruPolicy::held_by_children(std::uint32_t id) const {
  const std::uint32_t children = rows_[id].children;
  if (children == 0) return false;
  const auto it = departing_.find(id);
  return it == departing_.end() || it->second != children;
}

void LruPolicy::unpark_if_free(std::uint32_t id) {
  if (state_of(id) != State::kParked || held_by_children(id)) return;
  take_off(id);
  list_old(id);
}

void LruPolicy::link_to_parent(Row& child, std::uint32_t parent) {
  child.parent = 0;
  if (parent == 0 || rows_[parent].children == kMaxChildren) return;
  child.parent = parent;
  child.parent_epoch = rows_[parent].epoch;
  rows_[parent].children = rows_[parent].children + 1;
}

void LruPolicy::child_no_longer_departing(std::uint32_t parent) {
  const auto it = departing_.find(parent);
  CHECK(it != departing_.end() && it->second > 0, "a pending child was not counted");
  if (--it->second == 0) departing_.erase(it);
}

void LruPolicy::cut_children(std::uint32_t id) {
  Row& row = rows_[id];
  if (row.children == 0) return;
  if (row.epoch == kMaxEpoch) {
    cut_links_by_walking(id);
    row.epoch = 0;
  } else {
    row.epoch = row.epoch + 1;
  }
  row.children = 0;
  departing_.erase(id);
}

void LruPolicy::cut_links_by_walking(std::uint32_t parent) {
  for_each_present([this, parent](std::uint32_t id) {
    if (rows_[id].parent == parent) rows_[id].parent = 0;
  });
}

void LruPolicy::forget(std::uint32_t id) {
  Row& row = rows_[id];
  if (link_valid(row)) {
    const std::uint32_t parent = row.parent;
    if (state_of(id) == State::kPending) child_no_longer_departing(parent);
    CHECK(rows_[parent].children > 0);
    rows_[parent].children = rows_[parent].children - 1;
    unpark_if_free(parent);
  }
  cut_children(id);
  CHECK(class_of(id).present > 0);
  --class_of(id).present;
  const std::uint32_t epoch = row.epoch;
  row = Row{};
  row.epoch = epoch;
}

// ---- lists ----

std::uint64_t LruPolicy::bytes_of(std::uint32_t id) const {
  const Row& row = rows_[id];
  return std::uint64_t{row.members} * classes_[row.class_id].slot_size_pages * kPageBytes;
}

void LruPolicy::push_young(List& list, std::uint32_t id) {
  Row& row = rows_[id];
  row.older = list.youngest;
  row.younger = 0;
  if (list.youngest != 0) {
    rows_[list.youngest].younger = id;
  } else {
    list.oldest = id;
  }
  list.youngest = id;
}

void LruPolicy::push_old(List& list, std::uint32_t id) {
  Row& row = rows_[id];
  row.older = 0;
  row.younger = list.oldest;
  if (list.oldest != 0) {
    rows_[list.oldest].older = id;
  } else {
    list.youngest = id;
  }
  list.oldest = id;
}

void LruPolicy::unlink(List& list, std::uint32_t id) {
  const Row& row = rows_[id];
  if (row.older != 0) {
    rows_[row.older].younger = row.younger;
  } else {
    CHECK(list.oldest == id);
    list.oldest = row.younger;
  }
  if (row.younger != 0) {
    rows_[row.younger].older = row.older;
  } else {
    CHECK(list.youngest == id);
    list.youngest = row.older;
  }
}

void LruPolicy::list_young(std::uint32_t id) {
  SizeClass& size_class = class_of(id);
  set_state(id, State::kListed);
  push_young(size_class.list, id);
  ++size_class.listed;
  const bool sampled = size_class.samples.appended(
      id, clock_, size_class.listed, [this](std::uint32_t other) { rows_[other].sampled = 0; });
  if (sampled) rows_[id].sampled = 1;
}

void LruPolicy::list_old(std::uint32_t id) {
  SizeClass& size_class = class_of(id);
  set_state(id, State::kListed);
  push_old(size_class.list, id);
  ++size_class.listed;
}

void LruPolicy::take_off(std::uint32_t id) {
  switch (state_of(id)) {
    case State::kListed: {
      SizeClass& size_class = class_of(id);
      unlink(size_class.list, id);
      --size_class.listed;
      if (rows_[id].sampled) {
        size_class.samples.erase(id);
        rows_[id].sampled = 0;
      }
      return;
    }
    case State::kParked:
      unlink(parked_, id);
      return;
    case State::kPinned:
      unlink(pinned_, id);
      return;
    case State::kAbsent:
    case State::kPending:
      break;
  }
  CHECK(false, "the group is in no list");
}

void LruPolicy::park(std::uint32_t id) {
  take_off(id);
  set_state(id, State::kParked);
  push_young(parked_, id);
}

// ---- what the node asks ----

std::optional<std::uint64_t> LruPolicy::oldest(std::uint16_t class_id) const {
  CHECK(class_id < kMaxClasses);
  const SizeClass& size_class = classes_[class_id];
  if (size_class.list.oldest == 0) return std::nullopt;
  return size_class.samples.oldest();
}

std::uint64_t LruPolicy::resident_bytes(std::uint16_t class_id) const {
  CHECK(class_id < kMaxClasses);
  return classes_[class_id].resident_bytes;
}

}  // namespace orlop
