// SPDX-License-Identifier: Apache-2.0
// Recovery: the verdict on each group, and the stores that carry it out.
#include <algorithm>

#include "protocol/node/recovery.h"

namespace orlop::protocol {
namespace {

// A planted bug lets removed groups come back.
bool is_doomed(SlotWord word) {
  return word.doomed() && !PLANTED(kRemovedGroupResurrected);
}

}  // namespace

// ---- census ----

// The row of a slot that is or was readable does not match its own checksum.
bool Recovery::torn(SlotId slot, SlotWord word) const {
  const SlotRow& row = node_.area_.slot(slot);
  return row.load_fields_sum() !=
             segment::fields_sum(row.load_fields(), row.load_checksum(), word.generation) &&
         !PLANTED(kTornRowKept);
}

// A value of another size than its slab's slots: the row is whole, so the slab table is not.
bool Recovery::misplaced(SlotId slot) const {
  return slot_pages_for(node_.area_.slot(slot).load_value_len()) != node_.class_pages_of(slot);
}

Recovery::Census Recovery::count(std::span<const Found> group) const {
  Census c;
  const SlotRow& first = node_.area_.slot(SlotId{group[0].slot});
  const segment::SlotFields fields = first.load_fields();
  c.current = node_.is_current(fields.ns);
  c.complete = group.size() == fields.group.length;
  c.first_prepared = first.load_word(std::memory_order_relaxed).state == SlotState::kPrepared;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const SlotId slot{group[i].slot};
    const SlotRow& row = node_.area_.slot(slot);
    const segment::SlotFields own = row.load_fields();
    if (own.group.index != i || own.group.length != fields.group.length || own.ns != fields.ns ||
        own.value_len != fields.value_len)
      c.complete = false;
    const SlotWord word = row.load_word(std::memory_order_relaxed);
    if (word.state == SlotState::kPrepared) {
      ++c.prepared;
      continue;
    }
    if (is_doomed(word)) {
      ++c.doomed;
      continue;
    }
    if (word.state == SlotState::kCommitted) ++c.committed;
    if (word.state == SlotState::kLocalReady) ++c.local_ready;
    if (word.state == SlotState::kRetiring) ++c.retiring;
  }
  return c;
}

bool Recovery::owner_lives(std::span<const Found> group) const {
  return node_.clients_.contains(owner_of(PutId{group[0].put}));
}

// ---- verdicts ----

// No need to sort it among the others: a torn or misplaced row, or a group of one page that is not
// Prepared.
bool Recovery::take_single(SlotId slot, SlotWord word) {
  if (word.state == SlotState::kPrepared) return false;
  if (torn(slot, word)) {
    // Nor may what it says of its group count: it could take a stranger's with it, Prepared slots
    // of a living writer included. Its own group is short of a member.
    SOMETIMES(true, "recovery meets a torn row");
    doom(slot);
    return true;
  }
  if (misplaced(slot)) {
    SOMETIMES(true, "recovery meets a value in a slot of another size");
    doom(slot);
    return true;
  }
  const segment::SlotFields fields = node_.area_.slot(slot).load_fields();
  if (fields.group.length != 1 || fields.group.index != 0) return false;
  if (is_doomed(word) || !node_.is_current(fields.ns)) {
    doom(slot);
  } else {
    keep_one(slot, word);
  }
  return true;
}

void Recovery::decide(std::span<const Found> group) {
  const Census c = count(group);
  const bool sound = c.complete && c.current && c.doomed == 0 &&
                     !(c.retiring > 0 && PLANTED(kRetiringLostAtRestart));
  if (c.prepared == group.size()) {
    if (owner_lives(group) && !PLANTED(kPreparedFreedUnderWriter)) {
      keep_prepared(group);
    } else if (!PLANTED(kPreparedOfDeadOwnerKept)) {
      for (const Found& member : group) free_prepared(SlotId{member.slot});
    }
  } else if (PLANTED(kRecoveryBySlot)) {
    decide_by_slot(group);
  } else if (c.prepared == 0 && sound) {
    SOMETIMES(c.local_ready > 0, "recovery finishes a commit");
    keep_readable(group);
  } else if (sound && c.first_prepared && c.committed == 0 && c.retiring == 0 &&
             owner_lives(group)) {
    SOMETIMES(true, "recovery finds a partly ready group");
    keep_partly(group);
  } else {
    SOMETIMES(c.prepared > 0, "recovery drops a partly ready group");
    SOMETIMES(!c.complete, "recovery drops a group with a missing member");
    drop(group);
  }
}

void Recovery::keep_readable(std::span<const Found> group) {
  link(group);
  std::uint16_t age = 0xffff;
  for (std::size_t i = group.size(); i-- > 0;) {  // from the last to the first, as at commit
    const SlotId slot{group[i].slot};
    const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
    age = std::min(age, static_cast<std::uint16_t>(node_.coarse(now_) - word.recency));
    promote(slot);
  }
  kept_.push_back({SlotId{group[0].slot}, static_cast<std::uint16_t>(group.size()), age});
  ++report_.groups_kept;
  report_.slots_kept += group.size();
}

void Recovery::keep_one(SlotId slot, SlotWord word) {
  node_.links_[slot.value] = {slot.value, 0};
  promote(slot);
  kept_.push_back({slot, 1, static_cast<std::uint16_t>(node_.coarse(now_) - word.recency)});
  ++report_.groups_kept;
  ++report_.slots_kept;
}

void Recovery::keep_prepared(std::span<const Found> group) {
  link(group);
  PutRecord& put = put_of(group[0]);
  put.leaders.push_back(SlotId{group[0].slot});
  for (const Found& member : group) begin_prepared(SlotId{member.slot}, put);
  report_.prepared_kept += group.size();
}

void Recovery::begin_prepared(SlotId slot, PutRecord& put) {
  check_size(slot, put);
  const SlotRow& row = node_.area_.slot(slot);
  node_.prepared_began(slot, row.load_key(), row.load_ns(), put);
}

void Recovery::keep_partly(std::span<const Found> group) {
  link(group);
  PutRecord& put = put_of(group[0]);
  put.leaders.push_back(SlotId{group[0].slot});
  for (const Found& member : group) {
    const SlotId slot{member.slot};
    if (node_.area_.slot(slot).load_word(std::memory_order_relaxed).readable()) {
      check_size(slot, put);
      count_readable(slot);
      ++report_.slots_kept;
    } else {
      begin_prepared(slot, put);
      ++report_.prepared_kept;
    }
  }
  partly_.push_back(SlotId{group[0].slot});
}

// Its Prepared members go too: a member that is or was readable proves that the commit was posted.
void Recovery::drop(std::span<const Found> group) {
  for (const Found& member : group) {
    const SlotId slot{member.slot};
    const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
    if (word.state == SlotState::kPrepared) {
      free_prepared(slot);
    } else {
      doom(slot);
    }
  }
}

void Recovery::decide_by_slot(std::span<const Found> group) {
  std::vector<Found> readable, prepared;
  for (const Found& member : group) {
    const SlotId slot{member.slot};
    const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
    if (word.state == SlotState::kPrepared) {
      prepared.push_back(member);
    } else if (is_doomed(word) || !node_.is_current(node_.area_.slot(slot).load_ns())) {
      doom(slot);
    } else {
      readable.push_back(member);
    }
  }
  if (!readable.empty()) keep_readable(readable);
  if (prepared.empty()) return;
  if (owner_lives(prepared)) {
    keep_prepared(prepared);
  } else {
    drop(prepared);
  }
}

// ---- acts ----

void Recovery::link(std::span<const Found> group) {
  for (std::size_t i = 0; i < group.size(); ++i)
    node_.links_[group[i].slot] = {group[0].slot, i + 1 < group.size() ? group[i + 1].slot : 0};
}

// Nothing says how old the put is: its key is blocked for a full hold from now.
PutRecord& Recovery::put_of(const Found& member) {
  const PutId id{member.put};
  const auto [put, fresh] = node_.puts_.try_emplace(id);
  if (fresh) {
    const SlotRow& row = node_.area_.slot(SlotId{member.slot});
    PutRecord& record = put->second;
    record.id = id;
    record.client = &node_.clients_.at(owner_of(id));
    record.ns = row.load_ns();
    record.row = node_.row_of(record.ns);
    record.started = now_;
    record.slot_bytes = node_.slot_bytes_of(SlotId{member.slot});
    record.contended = true;
    ++record.client->open_puts;
  }
  return put->second;
}

// Its writer lives and may write: the slot can be neither freed nor accounted for.
void Recovery::check_size(SlotId slot, const PutRecord& put) {
  if (node_.slot_bytes_of(slot) == put.slot_bytes || !sizes_) return;
  sizes_ = fail(ErrorCode::kCorrupt, "slab table: slot " + std::to_string(slot.value) + " has " +
                                         std::to_string(node_.slot_bytes_of(slot)) +
                                         " bytes, other slots of the same open put have " +
                                         std::to_string(put.slot_bytes));
}

void Recovery::count_readable(SlotId slot) {
  node_.count_readable(node_.area_.slot(slot).load_ns(), 1);
  node_.resident_bytes_ += node_.slot_bytes_of(slot);
}

void Recovery::promote(SlotId slot) {
  const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
  if (word.state == SlotState::kRetiring) ++report_.retiring_restored;
  if (word.state != SlotState::kCommitted)
    node_.store_word(slot, word, {word.generation, SlotState::kCommitted, 0, word.recency});
  count_readable(slot);
}

void Recovery::doom(SlotId slot) {
  const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
  if (word.state != SlotState::kRetiring || !word.doomed()) {
    node_.store_word(slot, word,
                     {word.generation, SlotState::kRetiring, segment::kFlagDoomed, word.recency});
  }
  node_.hold(slot);
  node_.doomed_.push_back(slot);
  ++report_.slots_doomed;
}

void Recovery::free_prepared(SlotId slot) {
  const SlotWord word = node_.area_.slot(slot).load_word(std::memory_order_relaxed);
  node_.store_word(slot, word, {word.generation, SlotState::kFree, 0, word.recency});
  node_.allocator_.give_back(slot);
  ++report_.prepared_freed;
}

}  // namespace orlop::protocol
