// SPDX-License-Identifier: Apache-2.0
// NodeMachine::validate(): the slot table and everything private must tell the same story.
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

void Node::validate() const {
  index_.validate();
  allocator_.validate();
  policy_->validate();
  validate_slots();
  validate_totals();
}

void Node::validate_slots() const {
  std::uint64_t in_state[segment::kSlotStateCount] = {};
  std::uint64_t resident = 0, prepared = 0, doomed = 0, entries = 0, in_policy = 0;
  std::vector<std::uint64_t> row_slots(row_slots_.size(), 0);
  std::vector<SlotId> members;
  for (std::uint32_t s = 0; s < geometry_.slab_count; ++s) {
    const std::uint32_t pages = allocator_.class_pages_of(SlabId{s});
    const std::uint32_t slots = pages == 0 ? 0 : geometry_.ordinals_per_slab / pages;
    for (std::uint32_t ordinal = 0; ordinal < slots; ++ordinal) {
      const SlotId slot = geometry_.slot_id(SlabId{s}, ordinal);
      const SlotRow& row = area_.slot(slot);
      const SlotWord word = row.load_word(std::memory_order_relaxed);
      ++in_state[static_cast<int>(word.state)];
      CHECK(word.doomed() ? word.state == SlotState::kRetiring : true);
      if (word.state == SlotState::kRetiring) {
        CHECK(word.doomed(), "a plain Retiring lives inside one step only");
        CHECK(held_bits_.test(slot));
        ++doomed;
      }
      if (word.state == SlotState::kPrepared) {
        prepared += slot_bytes_of(slot);
        const auto put = puts_.find(row.load_put());
        CHECK(put != puts_.end(), "a Prepared slot belongs to an open put");
        const SlotId writer = in_flight_.find(row.load_key(), row.load_ns());
        CHECK(!writer || area_.slot(writer).load_word().state == SlotState::kPrepared);
        CHECK(writer == slot || put->second.contended, "only a contended writer is out of sight");
      }
      if (!word.readable()) continue;
      ++entries;
      resident += slot_bytes_of(slot);
      const auto current = current_rows_.find(row.load_ns().value);
      if (current != current_rows_.end()) ++row_slots[current->second];
      CHECK(row.load_fields_sum() ==
            segment::fields_sum(row.load_fields(), row.load_checksum(), word.generation));
      if (word.state == SlotState::kCommitted) {
        in_policy += slot_bytes_of(slot);
        const segment::SlotFields fields = row.load_fields();
        collect_members(SlotId{links_[slot.value].leader}, members);
        CHECK(members.size() == fields.group.length, "a committed group is whole");
        CHECK(members[fields.group.index] == slot);
        for (const SlotId member : members)
          CHECK(area_.slot(member).load_word().state == SlotState::kCommitted);
      } else {
        CHECK(puts_.contains(row.load_put()), "a partly ready group waits for its owner");
      }
    }
  }
  for (int state = 1; state < segment::kSlotStateCount; ++state)
    CHECK(in_state[state] == slots_in_state_[state]);
  CHECK(resident == resident_bytes_ && prepared == prepared_bytes_ && doomed == doomed_.size());
  CHECK(entries == index_.entries());
  CHECK(row_slots == row_slots_);
  std::uint64_t policy_bytes = 0;
  for (SizeClass c = 0; c < classes_.count(); ++c) policy_bytes += policy_->resident_bytes(c);
  CHECK(policy_bytes == in_policy, "the policy knows exactly the committed groups");
}

void Node::validate_totals() const {
  std::map<ClientId, std::uint64_t> puts, slots;
  for (const auto& [id, put] : puts_) {
    CHECK(put.id == id && put.client->id == owner_of(id) && put.open_slots > 0);
    CHECK(clients_.contains(put.client->id));
    std::uint64_t open = 0;
    std::vector<SlotId> members;
    for (const SlotId leader : put.leaders) {
      collect_members(leader, members);
      for (const SlotId member : members)
        open += area_.slot(member).load_word().state == SlotState::kPrepared ? 1 : 0;
    }
    CHECK(open == put.open_slots, "a put's groups hold all its Prepared slots");
    ++puts[put.client->id];
    slots[put.client->id] += open;
  }
  for (const auto& [id, client] : clients_) {
    CHECK(client.open_puts == puts[id] && client.prepared_slots == slots[id]);
    CHECK(!client.dead || client.fork_open, "a dead client with nothing left is reclaimed");
  }
  std::uint64_t marked = 0;
  for (const SlotId leader : marked_) {
    if (!marked_bits_.test(leader)) continue;
    ++marked;
    CHECK(held_bits_.test(leader));
  }
  CHECK(marked == marked_groups_);
  std::uint64_t keys = 0;
  for (const WaitingPut& waiting : waiting_) keys += waiting.keys.size();
  CHECK(keys == waiting_keys_);
  const Policy::Counters& counters = policy_->counters();
  CHECK(counters.pending == 0 && victims_.empty(), "victims live inside one step only");
  CHECK(counters_.groups_selected ==
        counters_.groups_freed + counters_.groups_restored + counters_.groups_obsolete);
}

}  // namespace orlop::protocol
