// SPDX-License-Identifier: Apache-2.0
// What every policy must agree with, written as plainly as possible: for tests.
//
// The model knows each group as an instance with its own serial number, so a parent link is simply
// the serial of the parent; slots that are reused cannot be confused. It decides nothing: it says
// which groups a policy is allowed to select. Every operation is linear in the groups.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "eviction/policy.h"

namespace orlop {

class PolicyModel {
 public:
  enum class State { kEvictable, kPinned, kPending };

  struct Group {
    GroupInfo info;
    State state = State::kEvictable;
    std::uint64_t serial = 0;
    std::uint64_t parent_serial = 0;  // 0 = root; may be the serial of one that is awaited
    std::uint64_t last_use = 0;
  };

  void inserted(const GroupInfo& info) {
    Group group{info, State::kEvictable, serial_for(info.group.value), 0, ++clock_};
    if (info.parent) group.parent_serial = serial_for(info.parent.value);
    groups_[info.group.value] = group;
  }
  void accessed(GroupRef ref) {
    Group* group = find(ref);
    if (group != nullptr && group->state == State::kEvictable) group->last_use = ++clock_;
  }
  void pinned(GroupRef ref) {
    Group* group = find(ref);
    if (group != nullptr && group->state == State::kEvictable) group->state = State::kPinned;
  }
  void unpinned(GroupRef ref) {
    Group* group = find(ref);
    if (group == nullptr || group->state != State::kPinned) return;
    group->state = State::kEvictable;
    group->last_use = ++clock_;
  }
  void gone(GroupRef ref) {  // freed, removed, obsolete, or awaited in vain
    const auto identity = serial_of_slot_.find(ref.value);
    if (identity == serial_of_slot_.end()) return;
    groups_.erase(ref.value);
    for (auto& [slot, other] : groups_) {
      if (other.parent_serial == identity->second) other.parent_serial = 0;
    }
    serial_of_slot_.erase(identity);
  }
  void selected(GroupRef ref) { find(ref)->state = State::kPending; }
  void restored(GroupRef ref) { find(ref)->state = State::kPinned; }

  Group* find(GroupRef ref) {
    const auto it = groups_.find(ref.value);
    return it == groups_.end() ? nullptr : &it->second;
  }
  const std::map<std::uint32_t, Group>& groups() const { return groups_; }

  bool has_resident_children(const Group& parent) const {
    for (const auto& [slot, group] : groups_) {
      if (group.parent_serial == parent.serial && group.state != State::kPending) return true;
    }
    return false;
  }
  bool may_leave(const Group& group) const {
    return group.state == State::kEvictable && !has_resident_children(group);
  }
  // Of the groups of a class that may leave: the one used longest ago.
  std::optional<GroupRef> least_recent(std::uint16_t class_id) const {
    const Group* best = nullptr;
    for (const auto& [slot, group] : groups_) {
      if (group.info.class_id != class_id || !may_leave(group)) continue;
      if (best == nullptr || group.last_use < best->last_use) best = &group;
    }
    return best == nullptr ? std::nullopt : std::optional<GroupRef>(best->info.group);
  }
  static std::uint64_t bytes_of(const GroupInfo& info) {
    return std::uint64_t{info.members} * info.slot_size_pages * kPageBytes;
  }
  std::uint64_t resident_bytes(std::uint16_t class_id) const {
    std::uint64_t bytes = 0;
    for (const auto& [slot, group] : groups_) {
      if (group.info.class_id == class_id && group.state != State::kPending) {
        bytes += bytes_of(group.info);
      }
    }
    return bytes;
  }
  // A slot that is neither in use nor promised to an awaited parent.
  bool unused(std::uint32_t slot) const { return !serial_of_slot_.contains(slot); }
  bool awaited(std::uint32_t slot) const {
    return serial_of_slot_.contains(slot) && !groups_.contains(slot);
  }
  // No one waits for an awaited parent any more: its slot is free for others.
  void forget_unneeded_promises() {
    std::set<std::uint64_t> named;
    for (const auto& [slot, group] : groups_) named.insert(group.parent_serial);
    std::erase_if(serial_of_slot_, [&](const auto& entry) {
      return !groups_.contains(entry.first) && !named.contains(entry.second);
    });
  }

 private:
  std::uint64_t serial_for(std::uint32_t slot) {
    const auto [it, fresh] = serial_of_slot_.try_emplace(slot, next_serial_);
    if (fresh) ++next_serial_;
    return it->second;
  }

  std::map<std::uint32_t, Group> groups_;                  // by slot
  std::map<std::uint32_t, std::uint64_t> serial_of_slot_;  // present and awaited groups
  std::uint64_t next_serial_ = 1;
  std::uint64_t clock_ = 0;
};

}  // namespace orlop
