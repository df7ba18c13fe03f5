// SPDX-License-Identifier: Apache-2.0
#include "node_steps.h"

#include "base/check.h"
#include "base/planted.h"
#include "segment/slot_row.h"

namespace orlop::interleaving {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;

// Node::store_word
void NodeSteps::store_state(SlotId slot, SlotState state, std::uint8_t flags) {
  const SlotWord before = word_of(slot);
  world_->area().slot(slot).store_word({before.generation, state, flags, before.recency});
}

// ---- put ----

void NodeSteps::put(std::span<const SlotId> slots, std::span<const KeyId> keys) {
  const PutId id = make_put_id(ClientId{1}, ++puts_);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    segment::GroupPlace place;
    place.index = static_cast<std::uint16_t>(i);
    place.length = static_cast<std::uint16_t>(slots.size());
    prepare_slot(slots[i], {keys[i], 4096, kNs, place, id});
  }
  // The writer, between the answer to put_start and its commit.
  for (std::size_t i = 0; i < slots.size(); ++i)
    world_->page(slots[i]).store(bytes_of(keys[i]), std::memory_order_relaxed);
  make_readable(slots);
}

// Node::prepare_slot
void NodeSteps::prepare_slot(SlotId slot, const segment::SlotFields& fields) {
  SlotRow& row = world_->area().slot(slot);
  const SlotWord before = word_of(slot);
  CHECK(before.state == SlotState::kFree);
  row.store_fields(fields);
  row.store_word({Generation{before.generation.value + 1}, SlotState::kPrepared, 0, 0});
}

// Node::make_readable
void NodeSteps::make_readable(std::span<const SlotId> members) {
  for (const SlotId slot : members) {
    SlotRow& row = world_->area().slot(slot);
    const std::uint64_t checksum = bytes_of(row.load_key());
    row.store_checksums(checksum,
                        segment::fields_sum(row.load_fields(), checksum, word_of(slot).generation));
  }
  for (std::size_t i = members.size(); i-- > 0;) {
    store_state(members[i], SlotState::kLocalReady);
    const SlotRow& row = world_->area().slot(members[i]);
    index_.insert(row.load_key(), row.load_ns(), members[i]);
  }
  for (std::size_t i = members.size(); i-- > 0;) store_state(members[i], SlotState::kCommitted);
}

// ---- eviction ----

// Node::evict and Node::settle
bool NodeSteps::evict(std::span<const SlotId> group) {
  retire_group(group);
  scan_ledgers();
  if (found_pinned(group)) {
    restore_group(group);
    return false;
  }
  free_group(group);
  return true;
}

// Node::retire_group
void NodeSteps::retire_group(std::span<const SlotId> members) {
  for (const SlotId slot : members) {
    CHECK(word_of(slot).state == SlotState::kCommitted);
    store_state(slot, SlotState::kRetiring);
    held_bits_ |= std::uint64_t{1} << slot.value;
  }
}

// Node::restore_group
void NodeSteps::restore_group(std::span<const SlotId> members) {
  for (std::size_t i = members.size(); i-- > 0;) {
    store_state(members[i], SlotState::kCommitted);
    held_bits_ &= ~(std::uint64_t{1} << members[i].value);
  }
}

// Node::free_group
void NodeSteps::free_group(std::span<const SlotId> members) {
  for (const SlotId slot : members) {
    const SlotRow& row = world_->area().slot(slot);
    CHECK(index_.erase(row.load_key(), row.load_ns(), slot));
    return_slot(slot);
  }
}

// Node::return_slot
void NodeSteps::return_slot(SlotId slot) {
  CHECK(word_of(slot).state == SlotState::kRetiring);
  held_bits_ &= ~(std::uint64_t{1} << slot.value);
  store_state(slot, SlotState::kFree);
}

// Node::scan_ledgers
void NodeSteps::scan_ledgers() {
  found_bits_ = 0;
  if (!PLANTED(kFenceMissing)) segment::full_fence();  // partner: the client's in pin_prefix
  for (const segment::ChannelView& channel : channels_) {
    if (PLANTED(kFreeWithoutScan)) continue;
    segment::for_each_held_cell(channel, [&](segment::LedgerCell cell) {
      if (cell.slot.value > world_->slots() || !held(cell.slot)) return;
      if (word_of(cell.slot).generation == cell.generation)
        found_bits_ |= std::uint64_t{1} << cell.slot.value;
    });
  }
}

// Node::found_pinned
bool NodeSteps::found_pinned(std::span<const SlotId> members) const {
  for (const SlotId slot : members) {
    if ((found_bits_ >> slot.value & 1) != 0) return true;
  }
  return false;
}

// ---- recovery ----

// Recovery::run: walk, decide_all, scan_ledgers, free_doomed, rebuild_index
void NodeSteps::recover() {
  std::vector<std::vector<SlotId>> groups;
  for (std::uint32_t s = 1; s <= world_->slots(); ++s) {
    const SlotId slot{s};
    if (word_of(slot).state == SlotState::kFree) continue;
    const segment::SlotFields fields = world_->area().slot(slot).load_fields();
    const auto same_put = [&](const std::vector<SlotId>& group) {
      return world_->area().slot(group[0]).load_put() == fields.put;
    };
    auto at = groups.begin();
    while (at != groups.end() && !same_put(*at)) ++at;
    if (at == groups.end()) at = groups.emplace(at);
    at->push_back(slot);
  }
  for (const auto& group : groups) decide(group);
  scan_ledgers();
  std::erase_if(doomed_, [this](SlotId slot) {
    if ((found_bits_ >> slot.value & 1) != 0) return false;
    return_slot(slot);
    return true;
  });
  index_ = segment::KeyIndexWriter(world_->area());
  index_.begin_rebuild(world_->slots());
  for (std::uint32_t s = 1; s <= world_->slots(); ++s) {
    const SlotRow& row = world_->area().slot(SlotId{s});
    if (word_of(SlotId{s}).readable()) index_.insert(row.load_key(), row.load_ns(), SlotId{s});
  }
  index_.publish_rebuild();
}

// Recovery::decide, for a writer that lives and posts nothing again: a group that was never
// readable is freed, one that is whole is kept, any other is doomed.
void NodeSteps::decide(std::span<const SlotId> group) {
  std::size_t prepared = 0;
  bool whole = true;
  for (const SlotId slot : group) {
    const SlotWord word = word_of(slot);
    if (word.state == SlotState::kPrepared) ++prepared;
    if (word.doomed()) whole = false;
  }
  const std::uint16_t length = world_->area().slot(group[0]).load_fields().group.length;
  whole = whole && prepared == 0 && group.size() == length;
  for (std::size_t i = group.size(); i-- > 0;) {  // as at commit
    const SlotId slot = group[i];
    if (word_of(slot).state == SlotState::kPrepared) {
      store_state(slot, SlotState::kFree);
    } else if (whole) {
      if (word_of(slot).state != SlotState::kCommitted) store_state(slot, SlotState::kCommitted);
    } else {
      store_state(slot, SlotState::kRetiring, segment::kFlagDoomed);
      held_bits_ |= std::uint64_t{1} << slot.value;
      doomed_.push_back(slot);
    }
  }
}

}  // namespace orlop::interleaving
