// SPDX-License-Identifier: Apache-2.0
// Eviction: the uninterrupted retire-fence-scan-free step, and how much it is asked for.
//
// How much. A claim that finds no memory asks for what it lacks. Background refill asks for what
// the reserve lacks, exactly: evicting ahead of demand costs hit rate. A claim may take more, up to
// the reserve (refill would evict just that next), so that its scan is paid for; beyond the reserve
// only while scans are dear, and then by at most min_evict_groups.
//
// When. A claim that a scan satisfies never waits for the next one. A claim that it could not
// satisfy (all is pinned or being written) spaces its scans by max(10 ms, 10 x their modelled
// cost).
#include <algorithm>
#include <limits>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

// ---- the step ----

// Words from the first member to the last: a prefix reader that comes now misses the group at once.
void Node::retire_group(SlotId leader) {
  for (std::uint32_t id = leader.value; id != 0; id = links_[id].next) {
    const SlotWord word = area_.slot(SlotId{id}).load_word(std::memory_order_relaxed);
    CHECK(word.state == SlotState::kCommitted, "only whole groups are offered to the policy");
    store_word(SlotId{id}, word, {word.generation, SlotState::kRetiring, 0, word.recency});
    held_bits_.set(SlotId{id});
  }
}

// Words from the last member to the first, as at commit. A restart in between finds Committed and
// plain Retiring members, all present: it restores the rest.
void Node::restore_group(std::span<const SlotId> members) {
  const std::size_t hidden = PLANTED(kHalfGroupRestored) && members.size() > 1 ? 1 : 0;
  for (std::size_t i = members.size() - hidden; i-- > 0;) {
    const SlotWord word = area_.slot(members[i]).load_word(std::memory_order_relaxed);
    store_word(members[i], word, {word.generation, SlotState::kCommitted, 0, word.recency});
    held_bits_.clear(members[i]);
  }
}

// A restart in between finds a member missing and drops the rest.
void Node::free_group(std::span<const SlotId> members) {
  for (const SlotId slot : members) {
    const SlotRow& row = area_.slot(slot);
    CHECK(index_.erase(row.load_key(), row.load_ns(), slot), "a readable slot is in the index");
    remember_gone(slot, MissCause::kEvicted);
    count_readable(row.load_ns(), -1);
    if (const auto ns = row_of(row.load_ns())) ++rows_[*ns].traffic.evicted_slots;
    const std::uint64_t bytes = slot_bytes_of(slot);
    resident_bytes_ -= bytes;
    held_bits_.clear(slot);
    return_slot(slot);
    ++counters_.slots_evicted;
    counters_.bytes_evicted += bytes;
  }
}

// Decides one victim of the current scan. True if its slots are free.
bool Node::settle(Victim& victim) {
  const SlotId leader = victim.group();
  collect_members(leader, group_members_);
  if (found_pinned(group_members_)) {
    SOMETIMES(true, "a pinned group is restored");
    if (PLANTED(kHalfGroupEvicted)) {
      std::erase_if(group_members_, [this](SlotId member) {
        if (!found_bits_.test(member)) free_group({&member, 1});
        return !found_bits_.test(member);
      });
    }
    if (!PLANTED(kVictimLeftHidden)) restore_group(group_members_);
    policy_->restored_pinned(std::move(victim));
    mark_pinned(leader);
  } else if (policy_->has_resident_children(victim)) {
    SOMETIMES(true, "a parent is restored with its pinned child");
    restore_group(group_members_);
    policy_->restored_pinned(std::move(victim));
    policy_->unpinned(leader);  // nobody pins it: it may go as soon as its children went
  } else {
    free_group(group_members_);
    policy_->freed(std::move(victim));
    ++counters_.groups_freed;
    return true;
  }
  ++counters_.groups_restored;
  return false;
}

std::uint64_t Node::evict(SizeClass c, std::uint64_t bytes, std::uint32_t max_groups, MonoNs now) {
  drain_rings(std::numeric_limits<std::uint32_t>::max(), kMissedOfAll, now);
  victims_.clear();
  policy_->evict_some(c, bytes, max_groups, victims_);
  counters_.groups_selected += victims_.size();
  for (const Victim& victim : victims_) retire_group(victim.group());
  scan_ledgers();
  std::uint64_t freed = 0;
  for (Victim& victim : victims_) {  // children before parents
    const std::uint32_t members = victim.members();
    if (settle(victim)) freed += members;
  }
  victims_.clear();
  finish_scan(now);
  return freed;
}

// ---- how much ----

// Free slots to keep ahead of demand. Classes share the reserve by the slabs they have, so that a
// small class is not emptied for a reserve meant for the whole; one class alone has all of it.
std::uint64_t Node::reserve_slots(SizeClass c) const {
  std::uint64_t own = 0, all = 0;
  for (const segment::ClassStats& stats : allocator_.classes()) {
    all += stats.slabs;
    if (stats.slot_pages == classes_.pages(c)) own = stats.slabs;
  }
  const std::uint64_t slots = config_.reserve_bytes / classes_.bytes(c);
  return all == 0 || own == all ? slots : slots * own / all;
}

// Slots to evict in one batch so that a claim of `slots` gets what it lacks.
std::uint64_t Node::eviction_target(SizeClass c, std::uint64_t slots, int round) const {
  const std::uint64_t lacking = slots - available(c);
  const std::uint64_t deficit = lacking + reserve_slots(c);
  const std::uint64_t paying = std::max<std::uint64_t>(lacking, config_.min_evict_groups);
  const bool dear = last_scan_cells_ > kCheapScanCells;
  if (round == 0 && !dear) return std::min(paying, deficit);
  return std::min(paying << round, deficit + config_.min_evict_groups);
}

// Frees memory so that `slots` can be taken, as far as it goes now.
void Node::make_room(SizeClass c, std::uint64_t slots, MonoNs now) {
  if (now < next_claim_scan_) return;
  // Where victims turn out pinned the next batch is larger; a group that was given back counts too.
  // Dear scans get two batches, then they are spaced.
  for (int round = 0; round < kMaxEvictRounds && available(c) < slots; ++round) {
    const std::uint64_t target = eviction_target(c, slots, round);
    const std::uint64_t selected_before = counters_.groups_selected;
    evict(c, target * classes_.bytes(c),
          static_cast<std::uint32_t>(std::min<std::uint64_t>(target, kMaxKeysPerPut)), now);
    const bool selected = counters_.groups_selected > selected_before;
    if (!selected && given_back_ == 0) break;
    if (round > 0 && last_scan_cells_ > kCheapScanCells) break;
  }
  if (available(c) < slots) steal_slabs(c, slots, now);
  if (available(c) < slots) {
    next_claim_scan_ =
        now + std::max<MonoNs>(kMinScanSpacing, 10 * last_scan_cells_ * kScanNsPerCell);
  }
}

// One bounded slice of refill; false when no class needs one.
bool Node::refill_slice(MonoNs now) {
  for (SizeClass c = 0; c < classes_.count(); ++c) {
    const std::uint64_t reserve = reserve_slots(c), have = available(c);
    if (have >= reserve || !policy_->oldest(c)) continue;
    const std::uint64_t deficit = reserve - have;
    // While a scan costs more than it would free, let the deficit grow up to half the reserve.
    const std::uint64_t quantum =
        last_scan_cells_ <= kCheapScanCells ? 1 : std::min(last_scan_cells_ / 64, reserve / 2);
    if (deficit < quantum) continue;
    evict(c, deficit * classes_.bytes(c), kMaxRefillGroups, now);
    return true;
  }
  return false;
}

}  // namespace orlop::protocol
