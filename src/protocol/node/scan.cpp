// SPDX-License-Identifier: Apache-2.0
// Touches in, pins out: what the node reads from its clients' channels.
#include <algorithm>

#include "protocol/node/node_state.h"
#include "segment/ledger.h"

namespace orlop::protocol {

// ---- touches and missed keys ----

// Before every choice of victims: what was read lately stays, and a key that was missed before it
// left did not miss because it left.
void Node::drain_rings(std::uint32_t touches, std::uint32_t missed, MonoNs now) {
  for (auto& [id, client] : clients_) drain_touches(client, touches, now);
  drain_all_missed(missed);
}

void Node::touched(SlotId slot, std::uint16_t recency, SlotId* last) {
  if (!known_slot(slot)) return;  // a client writes what it likes
  const SlotWord word = area_.slot(slot).load_word(std::memory_order_relaxed);
  if (!word.readable()) return;
  if (const auto row = row_of(area_.slot(slot).load_ns())) {
    ++rows_[*row].traffic.touches;
    rows_[*row].traffic.last_hit = now_;
  }
  const SlotId leader{links_[slot.value].leader};
  if (leader != *last) policy_->accessed(leader);
  *last = leader;
  if (word.recency != recency)
    store_word(slot, word, {word.generation, word.state, word.flags, recency});
}

void Node::drain_touches(ClientRecord& client, std::uint32_t limit, MonoNs now) {
  if (client.dead) return;
  const std::uint16_t recency = coarse(now);
  SlotId last;
  std::uint64_t drained = 0;
  const std::uint32_t lost = client.touches.drain(limit, [&](SlotId slot) {
    touched(slot, recency, &last);
    ++drained;
  });
  counters_.touches += drained;
  counters_.touches_lost += lost;
}

// ---- ledgers ----

bool Node::found_pinned(std::span<const SlotId> members) const {
  return std::any_of(members.begin(), members.end(),
                     [this](SlotId slot) { return found_bits_.test(slot); });
}

// One pass over all ledgers: which of the held slots are pinned (found_bits_), and how much each
// client pins. Requires: every word that hides a slot was stored before; nothing is freed on an
// older scan's word.
void Node::scan_ledgers() {
  for (const SlotId slot : found_) found_bits_.clear(slot);
  found_.clear();
  const auto found = [this](SlotId slot) {
    if (found_bits_.test(slot)) return;
    found_bits_.set(slot);
    found_.push_back(slot);
  };
  if (!PLANTED(kFenceMissing))
    segment::full_fence();  // partner: the client's, between cell and word
  std::uint64_t cells = 0, pinned_total = 0;
  for (auto& [id, client] : clients_) {
    client.pinned_cells = client.pinned_bytes = 0;
    if (client.dead || PLANTED(kFreeWithoutScan)) continue;
    if (client.lost && PLANTED(kLedgerDroppedAtHangUp)) continue;
    cells += segment::for_each_held_cell(client.channel, [&](segment::LedgerCell cell) {
      ++client.pinned_cells;
      if (area_.valid_slot(cell.slot)) client.pinned_bytes += slot_bytes_of(cell.slot);
      if (!held_bits_.test_any(cell.slot)) return;
      // A cell of another generation holds nothing: its pin's re-read fails, or it is forged.
      const SlotWord word = area_.slot(cell.slot).load_word(std::memory_order_relaxed);
      if (word.generation == cell.generation) found(cell.slot);
    });
    pinned_total += client.pinned_bytes;
  }
  for (const NodePin& pin : node_pins_) found(pin.slot);
  ++counters_.scans;
  counters_.cells_scanned += cells;
  last_scan_cells_ = cells;
  publish_pin_cap(pinned_total);
}

// What clients pin, for a status and for `drain`: as scan_ledgers(), but nothing is decided by it,
// so people who ask in a loop get the last figures for ten times what the pass costs.
void Node::count_pins(MonoNs least_spacing, MonoNs now) {
  const MonoNs spacing = std::max(least_spacing, 10 * pins_counted_cost_);
  if (pins_counted_at_ != 0 && now - pins_counted_at_ < spacing) return;
  pins_counted_at_ = now;
  pins_counted_cost_ = 0;
  for (auto& [id, client] : clients_) {
    client.pinned_cells = client.pinned_bytes = 0;
    if (client.dead) continue;
    const std::uint64_t cells =
        segment::for_each_held_cell(client.channel, [&](segment::LedgerCell cell) {
          ++client.pinned_cells;
          if (area_.valid_slot(cell.slot)) client.pinned_bytes += slot_bytes_of(cell.slot);
        });
    pins_counted_cost_ += (cells + client.channel.bitmap_words()) * kScanNsPerCell;
  }
}

// A client that never releases must not stop the puts of others: while all together pin less than
// half, each may have its maximum, else that half is divided.
void Node::publish_pin_cap(std::uint64_t pinned_total) {
  const std::uint64_t half = geometry_.value_bytes() / 2;
  std::uint64_t attached = 0;
  for (const auto& [id, client] : clients_) attached += client.dead ? 0 : 1;
  const std::uint64_t cap = pinned_total < half || attached == 0 || PLANTED(kPinBudgetIgnored)
                                ? config_.max_pinned_bytes
                                : std::min(config_.max_pinned_bytes, half / attached);
  auto& word = area_.header().pin_cap_bytes;
  if (word.load(std::memory_order_relaxed) != cap) word.store(cap, std::memory_order_relaxed);
}

std::uint32_t Node::give_back_unpinned() {
  std::uint32_t given = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < marked_.size(); ++i) {
    const SlotId leader = marked_[i];
    if (!marked_bits_.test(leader)) continue;  // it left by another way
    collect_members(leader, members_);
    if (PLANTED(kPinnedGroupsNeverGivenBack) || found_pinned(members_)) {
      marked_[kept++] = leader;
      continue;
    }
    unmark(leader);
    policy_->unpinned(leader);
    ++given;
  }
  marked_.resize(kept);
  return given;
}

std::uint32_t Node::free_doomed() {
  std::uint32_t freed = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < doomed_.size(); ++i) {
    const SlotId slot = doomed_[i];
    if (found_bits_.test(slot) && !PLANTED(kDoomedFreedUnderReaders)) {
      doomed_[kept++] = slot;
      continue;
    }
    unhold(slot);
    return_slot(slot);
    ++freed;
  }
  doomed_.resize(kept);
  doomed_unscanned_ = 0;
  doomed_scan_due_ = false;
  SOMETIMES(kept > 0, "a removed slot waits for its readers");
  return freed;
}

// What every scan does for those who are not its victims.
void Node::finish_scan(MonoNs now) {
  const std::uint32_t given = give_back_unpinned();
  const std::uint32_t freed = free_doomed();
  SOMETIMES(given > 0, "a pinned group is given back");
  if (given > 0) {
    // There is something to evict again, for refill and for those who wait.
    refill_due_ = true;
    space_freed_ = true;
    next_claim_scan_ = 0;
  }
  given_back_ = given;
  if (given > 0 || freed > 0) {
    maintenance_backoff_ = kMinScanSpacing;
  } else {
    maintenance_backoff_ = std::min(maintenance_backoff_ * 2, kMaxScanBackoff);
  }
  maintenance_backoff_ =
      std::max<MonoNs>(maintenance_backoff_, 10 * last_scan_cells_ * kScanNsPerCell);
  maintenance_at_ = marked_.empty() && doomed_.empty() ? kNever : now + maintenance_backoff_;
}

void Node::scan_only(MonoNs now) {
  scan_ledgers();
  finish_scan(now);
}

}  // namespace orlop::protocol
