// SPDX-License-Identifier: Apache-2.0
// One slot, one group: the stores that change a state, and the books that follow them.
//
// Every function here leaves, between any two of its stores, a table that recovery (recover.cpp)
// reads correctly; the argument stands beside the order where it matters.
#include "protocol/node/node_state.h"

namespace orlop::protocol {

void Node::hold(SlotId slot) {
  held_bits_.set(slot);
  ++busy_in_slab_[slab_of(slot).value];
}

void Node::unhold(SlotId slot) {
  held_bits_.clear(slot);
  --busy_in_slab_[slab_of(slot).value];
}

// ---- Prepared ----

void Node::free_prepared(SlotId slot, PutRecord& put, MissCause cause) {
  const SlotRow& row = area_.slot(slot);
  const SlotWord before = row.load_word(std::memory_order_relaxed);
  CHECK(before.state == SlotState::kPrepared);
  remember_gone(slot, cause);
  prepared_ended(slot, row.load_key(), row.load_ns(), put);
  const SlotState after = PLANTED(kGivenUpAsReady) ? SlotState::kLocalReady : SlotState::kFree;
  store_word(slot, before, {before.generation, after, 0, before.recency});
  allocator_.give_back(slot);
  space_freed_ = true;
}

// ---- leaving ----

void Node::remember_gone(SlotId slot, MissCause cause) {
  const SlotRow& row = area_.slot(slot);
  gone_.left(row.load_key(), row.load_ns(), cause, now_);
}

void Node::doom_slot(SlotId slot, MissCause cause) {
  SlotRow& row = area_.slot(slot);
  const SlotWord before = row.load_word(std::memory_order_relaxed);
  CHECK(before.readable());
  remember_gone(slot, cause);
  store_word(slot, before,
             {before.generation, SlotState::kRetiring, segment::kFlagDoomed, before.recency});
  // The key may be put again at once: its entry goes in the same step.
  CHECK(index_.erase(row.load_key(), row.load_ns(), slot), "a readable slot is in the index");
  count_readable(row.load_ns(), -1);
  if (!PLANTED(kBytesLeftBehind)) resident_bytes_ -= slot_bytes_of(slot);
  hold(slot);
  doomed_.push_back(slot);
  ++doomed_unscanned_;
  doomed_scan_due_ = true;
}

void Node::return_slot(SlotId slot) {
  const SlotWord before = area_.slot(slot).load_word(std::memory_order_relaxed);
  CHECK(before.state == SlotState::kRetiring);
  store_word(slot, before, {before.generation, SlotState::kFree, 0, before.recency});
  allocator_.give_back(slot);
  space_freed_ = true;
}

// ---- groups ----

void Node::collect_members(SlotId leader, std::vector<SlotId>& out) const {
  out.clear();
  for (std::uint32_t id = leader.value; id != 0; id = links_[id].next) {
    DCHECK(links_[id].leader == leader.value);
    out.push_back(SlotId{id});
  }
}

// Order: as the members come. Wherever it stops, recovery finds a doomed or a missing member and
// drops the rest; the group's Prepared members had their commit posted, nobody writes them.
std::uint64_t Node::drop_group(SlotId leader, PutRecord* put, MissCause cause) {
  collect_members(leader, members_);
  unmark(leader);
  std::uint64_t doomed = 0;
  for (const SlotId member : members_) {
    const SlotWord word = area_.slot(member).load_word(std::memory_order_relaxed);
    if (word.readable()) {
      doom_slot(member, cause);
      ++doomed;
    } else {
      CHECK(put != nullptr, "a Prepared slot belongs to an open put");
      free_prepared(member, *put, cause);
    }
  }
  if (doomed > 0) policy_->removed(leader);
  return doomed;
}

// For acts that find a group by its readable members. Its put is open only if it is partly ready.
std::uint64_t Node::drop_group_of_put(SlotId leader, MissCause cause) {
  const auto put = puts_.find(area_.slot(leader).load_put());
  const std::uint64_t doomed =
      drop_group(leader, put == puts_.end() ? nullptr : &put->second, cause);
  if (put != puts_.end()) sweep_put(put);
  return doomed;
}

// ---- pinned groups ----

void Node::mark_pinned(SlotId leader) {
  if (marked_bits_.test(leader)) return;
  marked_bits_.set(leader);
  marked_.push_back(leader);
  ++marked_groups_;
  for (std::uint32_t id = leader.value; id != 0; id = links_[id].next) hold(SlotId{id});
}

void Node::unmark(SlotId leader) {
  if (!marked_bits_.test(leader)) return;
  marked_bits_.clear(leader);  // its entry in marked_ is stale now; the next scan drops it
  --marked_groups_;
  for (std::uint32_t id = leader.value; id != 0; id = links_[id].next) unhold(SlotId{id});
}

}  // namespace orlop::protocol
