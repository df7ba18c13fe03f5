// SPDX-License-Identifier: Apache-2.0
// put_commit and put_abort.
//
// Decided per group: every member must name {slot, generation, put id} of this client and be
// neither doomed nor flushed, and no member's key may be readable elsewhere; else the whole group
// goes. A repeated commit (the answer was lost with a server) changes nothing and answers the same.
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

void Node::handle(const event::PutCommit& e, MonoNs now, NodeEffects& effects) {
  if (find_client(e.client) == nullptr) return;
  const char* wrong = owner_of(e.put) != e.client ? "put id belongs to another client"
                      : e.entries.empty()         ? "entries is empty; commit names its slots"
                      : e.entries.size() > kMaxKeysPerPut ? "entries has more than 65,535 entries"
                                                          : nullptr;
  if (wrong != nullptr) {
    answer_error(effects, e.client, e.request, RequestCode::kPutCommit, ErrorCode::kInvalidArgument,
                 wrong);
    return;
  }
  ++counters_.commits;
  refill_due_ = true;
  const auto put = puts_.find(e.put);
  const auto count = static_cast<std::uint32_t>(e.entries.size());
  NodeAnswer& to = answer(effects, e.client, e.request, RequestCode::kPutCommit);
  to.first_outcome = static_cast<std::uint32_t>(effects.outcomes.size());
  to.count = count;
  effects.outcomes.resize(effects.outcomes.size() + count);
  const std::span out(effects.outcomes.data() + to.first_outcome, count);

  stored_.clear();
  PutRecord* record = put == puts_.end() ? nullptr : &put->second;
  const auto row = record == nullptr ? std::nullopt : record->row;
  // Flushes and second writers are for commit_group() to tell apart.
  const bool plain = record != nullptr && !record->contended &&
                     (is_current(record->ns) || PLANTED(kFlushForgetsOpenPuts)) &&
                     !(draining_ && PLANTED(kDrainRefusesCommits));
  for (std::uint32_t i = 0; i < count;) {
    if (plain && commit_single(e.entries[i], *record, now)) {
      out[i++] = Outcome::kStored;
    } else {
      i = commit_group(e, i, record, now, out);
    }
  }
  if (record != nullptr) insert_stored(*record);
  if (put != puts_.end()) sweep_put(put);
  for (const Outcome outcome : out) ++counters_.outcomes[static_cast<int>(outcome)];
  if (!row) return;
  for (const Outcome outcome : out)
    ++rows_[*row].traffic.outcomes[static_cast<std::size_t>(outcome)];
}

// The usual case, kept short: a group of one page, Prepared by this put, with nothing against it.
// False: nothing was done. The order of stores is that of make_readable().
bool Node::commit_single(const CommitEntry& entry, PutRecord& put, MonoNs now) {
  const SlotId slot{entry.slot};
  if (!known_slot(slot)) return false;
  SlotRow& row = area_.slot(slot);
  const SlotWord word = row.load_word(std::memory_order_relaxed);
  if (word.state != SlotState::kPrepared || word.generation.value != entry.generation ||
      row.load_put() != put.id || links_[slot.value].leader != slot.value)
    return false;
  const segment::SlotFields fields = row.load_fields();
  if (fields.group.length != 1) return false;
  const std::uint32_t sum = segment::fields_sum(fields, entry.checksum, word.generation);
  if (!PLANTED(kReadableBeforeChecksum)) row.store_checksums(entry.checksum, sum);
  prepared_ended(slot, fields.key, fields.ns, put);
  const std::uint16_t recency = coarse(now);
  store_word(slot, word, {word.generation, SlotState::kLocalReady, 0, recency});
  index_.insert(fields.key, fields.ns, slot);
  store_word(slot, {word.generation, SlotState::kLocalReady, 0, recency},
             {word.generation, SlotState::kCommitted, 0, recency});
  if (PLANTED(kReadableBeforeChecksum)) row.store_checksums(entry.checksum, sum);
  count_readable(fields.ns, 1);
  resident_bytes_ += put.slot_bytes;
  counters_.commit_bytes += fields.value_len;
  stored_.push_back(slot);
  return true;
}

// The entry's slot is this put's, in this generation, and not on its way out.
bool Node::names_live_slot(PutId put, const CommitEntry& entry) const {
  const SlotId slot{entry.slot};
  if (!known_slot(slot)) return false;
  const SlotRow& row = area_.slot(slot);
  const SlotWord word = row.load_word(std::memory_order_relaxed);
  return word.generation.value == entry.generation && row.load_put() == put &&
         (word.readable() || word.state == SlotState::kPrepared);
}

Outcome Node::outcome_of_lost(const PutRecord* put) const {
  return put != nullptr && !is_current(put->ns) ? Outcome::kFlushed : Outcome::kEvicted;
}

// Fills group_members_; returns the end of the entries that belong to the group, whole or not.
std::uint32_t Node::entries_of_group(const event::PutCommit& e, std::uint32_t first, SlotId leader,
                                     bool* whole) {
  collect_members(leader, group_members_);
  const std::size_t members = group_members_.size();
  std::size_t agree = 0;
  while (agree < members && first + agree < e.entries.size() &&
         e.entries[first + agree].slot == group_members_[agree].value &&
         names_live_slot(e.put, e.entries[first + agree]))
    ++agree;
  // After a kill inside put_start a group may have fewer members than its rows say.
  const std::uint16_t length = area_.slot(leader).load_fields().group.length;
  *whole = agree == members && members == length;
  if (*whole) return first + length;
  std::uint32_t end = first + 1;
  while (end < e.entries.size() && names_live_slot(e.put, e.entries[end]) &&
         links_[e.entries[end].slot].leader == leader.value)
    ++end;
  return end;
}

// Decides the group that entry `first` belongs to; returns the first entry after it.
std::uint32_t Node::commit_group(const event::PutCommit& e, std::uint32_t first, PutRecord* put,
                                 MonoNs now, std::span<Outcome> out) {
  if (!names_live_slot(e.put, e.entries[first]) || (draining_ && PLANTED(kDrainRefusesCommits))) {
    out[first] = outcome_of_lost(put);
    return first + 1;
  }
  const SlotId leader{links_[e.entries[first].slot].leader};
  bool whole = false;
  const std::uint32_t end = entries_of_group(e, first, leader, &whole);
  const auto entries = e.entries.subspan(first, end - first);
  const auto answers = out.subspan(first, end - first);
  const auto state_of = [this](SlotId slot) {
    return area_.slot(slot).load_word(std::memory_order_relaxed).state;
  };
  const bool done = std::all_of(group_members_.begin(), group_members_.end(), [&](SlotId member) {
    return state_of(member) == SlotState::kCommitted;
  });
  CHECK(put != nullptr || state_of(leader) != SlotState::kPrepared,
        "a Prepared slot belongs to an open put");
  if (!is_current(area_.slot(leader).load_ns()) && !PLANTED(kFlushForgetsOpenPuts)) {
    std::fill(answers.begin(), answers.end(), Outcome::kFlushed);
    drop_group(leader, put, MissCause::kFlushed);
  } else if (!whole || !checksums_agree(entries) || (done && PLANTED(kRepeatedCommitDropsGroup))) {
    std::fill(answers.begin(), answers.end(), Outcome::kEvicted);
    drop_group(leader, put, MissCause::kRefused);
  } else if (done) {
    SOMETIMES(true, "a commit is repeated");
    std::fill(answers.begin(), answers.end(), Outcome::kStored);
  } else if (CHECK(put != nullptr, "a group not yet Committed belongs to an open put");
             put->contended && !PLANTED(kSecondWriterStored) && answer_exists(answers)) {
    SOMETIMES(true, "a commit finds its key stored by another");
    drop_group(leader, put, MissCause::kRefused);
  } else {
    std::fill(answers.begin(), answers.end(), Outcome::kStored);
    make_readable(entries, *put, now);
    stored_.push_back(leader);
  }
  return end;
}

// Members that are readable already (repeated or partly ready) must have the checksum they are told
// now: it never changes while a generation is readable.
bool Node::checksums_agree(std::span<const CommitEntry> entries) const {
  return std::all_of(entries.begin(), entries.end(), [this](const CommitEntry& entry) {
    const SlotRow& row = area_.slot(SlotId{entry.slot});
    return !row.load_word(std::memory_order_relaxed).readable() ||
           row.load_checksum() == entry.checksum;
  });
}

// First commit wins. True if a key of group_members_ is readable in another slot; then out says
// which, and that the others were split from it.
bool Node::answer_exists(std::span<Outcome> out) const {
  const segment::IndexWord word = area_.index_word();
  bool any = false;
  for (std::size_t i = 0; i < group_members_.size(); ++i) {
    const SlotRow& row = area_.slot(group_members_[i]);
    const SlotId holder = segment::index_find(area_, word, row.load_key(), row.load_ns()).slot;
    const bool exists = holder && holder != group_members_[i];
    out[i] = exists ? Outcome::kExists : Outcome::kGroupSplit;
    any = any || exists;
  }
  return any;
}

// Prepared -> LocalReady -> Committed of group_members_, in one step. Checksums before any word.
// Words from the last member to the first: a prefix reader enters by the first, and a restart
// between two stores finds the first still Prepared, so the owner's repeated commit finishes it.
void Node::make_readable(std::span<const CommitEntry> entries, PutRecord& put, MonoNs now) {
  const std::size_t members = group_members_.size();
  const auto word_of = [this](SlotId slot) {
    return area_.slot(slot).load_word(std::memory_order_relaxed);
  };
  for (std::size_t i = 0; i < members; ++i) {
    SlotRow& row = area_.slot(group_members_[i]);
    const SlotWord word = word_of(group_members_[i]);
    if (word.state != SlotState::kPrepared) continue;
    row.store_checksums(
        entries[i].checksum,
        segment::fields_sum(row.load_fields(), entries[i].checksum, word.generation));
  }
  for (std::size_t i = members; i-- > 0;) {
    const SlotId slot = group_members_[i];
    const SlotWord word = word_of(slot);
    if (word.state != SlotState::kPrepared) continue;
    if (put.contended) warn_other_writer(slot);
    const SlotRow& row = area_.slot(slot);
    prepared_ended(slot, row.load_key(), row.load_ns(), put);
    store_word(slot, word, {word.generation, SlotState::kLocalReady, 0, coarse(now)});
    index_.insert(row.load_key(), row.load_ns(), slot);
    count_readable(row.load_ns(), 1);
    resident_bytes_ += put.slot_bytes;
    counters_.commit_bytes += row.load_value_len();
  }
  for (std::size_t i = PLANTED(kLeftLocalReady) ? 0 : members; i-- > 0;) {
    const SlotWord word = word_of(group_members_[i]);
    store_word(group_members_[i], word, {word.generation, SlotState::kCommitted, 0, word.recency});
  }
}

// The slot's key is about to be stored by a writer that had lost sight of it; who writes it now
// does not know of him.
void Node::warn_other_writer(SlotId slot) {
  const SlotRow& row = area_.slot(slot);
  const SlotId other = in_flight_.find(row.load_key(), row.load_ns());
  if (!other || other == slot) return;
  const auto put = puts_.find(area_.slot(other).load_put());
  CHECK(put != puts_.end(), "a Prepared slot belongs to an open put");
  put->second.contended = true;
}

// From the last group to the first, so that the policy sees leaves as older than their roots.
void Node::insert_stored(const PutRecord& put) {
  const auto pages = static_cast<std::uint32_t>(put.slot_bytes / segment::kMinSlotBytes);
  const auto size_class = classes_.find(pages);
  CHECK(size_class.has_value());
  for (std::size_t i = stored_.size(); i-- > 0;) {
    const SlotId leader = stored_[i];
    const auto members =
        static_cast<std::uint16_t>(area_.slot(leader).group.load(std::memory_order_relaxed) >> 16);
    policy_->inserted({leader, parent_group_of(leader), members, pages, *size_class});
  }
}

// Within the step in which groups ended none of their slots is given out again, so the leader's
// own word tells whether its group still waits for its commit.
void Node::sweep_put(PutTable::iterator put) {
  if (put->second.open_slots > 0) {
    const PutId id = put->first;
    std::erase_if(put->second.leaders, [this, id](SlotId leader) {
      const SlotRow& row = area_.slot(leader);
      return row.load_word(std::memory_order_relaxed).state != SlotState::kPrepared ||
             row.load_put() != id;
    });
    return;
  }
  CHECK(put->second.client->open_puts > 0);
  --put->second.client->open_puts;
  puts_.erase(put);
}

// Returns how many Prepared slots were freed.
std::uint64_t Node::end_put(PutTable::iterator put) {
  const std::uint64_t open = put->second.open_slots;
  for (const SlotId leader : put->second.leaders)
    drop_group(leader, &put->second, MissCause::kRefused);
  CHECK(put->second.open_slots == 0, "a put's groups hold all its Prepared slots");
  sweep_put(put);
  return open;
}

void Node::handle(const event::PutAbort& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  if (find_client(e.client) == nullptr) return;
  if (owner_of(e.put) != e.client) {
    answer_error(effects, e.client, e.request, RequestCode::kPutAbort, ErrorCode::kInvalidArgument,
                 "put id belongs to another client");
    return;
  }
  ++counters_.aborts;
  abort_waiting(e.put, effects);
  // Unknown is fine: the abort is repeated, or its put_start reserved nothing.
  if (const auto put = puts_.find(e.put); put != puts_.end()) end_put(put);
  answer(effects, e.client, e.request, RequestCode::kPutAbort);
}

}  // namespace orlop::protocol
