// SPDX-License-Identifier: Apache-2.0
// Per-slot functions of the node machine that a put and its commit call for every key. Included by
// node_state.h only.
#pragma once

#include "protocol/node/node_state.h"

namespace orlop::protocol {

inline std::uint32_t Node::class_pages_of(SlotId slot) const {
  return allocator_.class_pages_of(slab_of(slot));
}

inline bool Node::known_slot(SlotId slot) const {
  if (!area_.valid_slot(slot)) return false;
  const std::uint32_t pages = class_pages_of(slot);
  return pages != 0 && std::uint64_t{ordinal_of(slot) + 1} * pages <= std::uint64_t{1}
                                                                          << slab_shift_;
}

inline std::uint64_t Node::slot_bytes_of(SlotId slot) const {
  return class_pages_of(slot) * segment::kMinSlotBytes;
}

inline std::optional<std::uint32_t> Node::row_of(NamespaceIndex ns) const {
  if (last_row_.first == ns.value && ns) return last_row_.second;
  const auto row = current_rows_.find(ns.value);
  if (row == current_rows_.end()) return std::nullopt;
  last_row_ = *row;
  return row->second;
}

inline void Node::count_readable(NamespaceIndex ns, std::int64_t delta) {
  if (const auto row = row_of(ns)) row_slots_[*row] += static_cast<std::uint64_t>(delta);
}

inline void Node::store_word(SlotId slot, SlotWord before, SlotWord after) {
  DCHECK(area_.slot(slot).load_word(std::memory_order_relaxed) == before);
  --slots_in_state_[static_cast<int>(before.state)];
  ++slots_in_state_[static_cast<int>(after.state)];
  area_.slot(slot).store_word(after);
}

// The slot is Prepared and its row holds the identity.
inline void Node::prepared_began(SlotId slot, const KeyId& key, NamespaceIndex ns, PutRecord& put) {
  in_flight_.set(key, ns, slot);
  ++busy_in_slab_[slab_of(slot).value];
  ++put.open_slots;
  ++put.client->prepared_slots;
  put.client->prepared_bytes += put.slot_bytes;
  prepared_bytes_ += put.slot_bytes;
}

// The slot is about to leave Prepared, for readable or Free.
inline void Node::prepared_ended(SlotId slot, const KeyId& key, NamespaceIndex ns, PutRecord& put) {
  in_flight_.erase(key, ns, slot);
  --busy_in_slab_[slab_of(slot).value];
  CHECK(put.open_slots > 0 && prepared_bytes_ >= put.slot_bytes);
  --put.open_slots;
  prepared_bytes_ -= put.slot_bytes;
  --put.client->prepared_slots;
  put.client->prepared_bytes -= put.slot_bytes;
}

// Free -> Prepared. Returns the new generation.
inline Generation Node::prepare_slot(SlotId slot, SlotId leader, SlotId next,
                                     const segment::SlotFields& fields, PutRecord& put,
                                     MonoNs now) {
  SlotRow& row = area_.slot(slot);
  const SlotWord before = row.load_word(std::memory_order_relaxed);
  CHECK(before.state == SlotState::kFree, "the allocator gave out a slot in use");
  row.store_fields(fields);
  const Generation generation{before.generation.value + 1};
  store_word(slot, before, {generation, SlotState::kPrepared, 0, coarse(now)});
  links_[slot.value] = {leader.value, next.value};
  prepared_began(slot, fields.key, fields.ns, put);
  return generation;
}

// The group that holds the key before this group's first, if it is here: readable, of the same
// generation (as far as the row says) and namespace. Else the group is a root.
inline SlotId Node::parent_group_of(SlotId leader) const {
  const SlotRow& own = area_.slot(leader);
  const SlotId parent{
      static_cast<std::uint32_t>(own.parent_and_sum.load(std::memory_order_relaxed))};
  if (!parent || !known_slot(parent)) return {};
  const SlotRow& row = area_.slot(parent);
  const SlotWord word = row.load_word(std::memory_order_relaxed);
  const auto generation =
      static_cast<std::uint16_t>(own.group.load(std::memory_order_relaxed) >> 48);
  if (!word.readable() || static_cast<std::uint16_t>(word.generation.value) != generation ||
      row.load_ns() != own.load_ns())
    return {};
  const SlotId group{links_[parent.value].leader};
  return group == leader ? SlotId{} : group;
}

}  // namespace orlop::protocol
