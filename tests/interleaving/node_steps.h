// SPDX-License-Identifier: Apache-2.0
// The node's stores, without its books: the same sequences over the same primitives as the node
// machine (src/protocol/node), kept visibly alike; each function names the one it mirrors.
//
// Plain state: copied back from a prototype before each schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "page_world.h"
#include "segment/key_index.h"

namespace orlop::interleaving {

class NodeSteps {
 public:
  explicit NodeSteps(PageWorld& world) : world_(&world), index_(world.area()) {}

  void attach(const segment::ChannelView& channel) { channels_.push_back(channel); }
  // Node::reclaim: a dead client's ledger counts no more.
  void drop_channels() { channels_.clear(); }
  segment::KeyIndexWriter& index() { return index_; }

  // Free -> Prepared -> its bytes -> Committed, for one group of one put.
  void put(std::span<const SlotId> slots, std::span<const KeyId> keys);
  // The uninterrupted step for one victim group. True: freed; false: pinned and restored.
  bool evict(std::span<const SlotId> group);
  // Next server: verdict by group over all slots, marks, fence, scan, frees, index rebuilt.
  void recover();

 private:
  void prepare_slot(SlotId slot, const segment::SlotFields& fields);
  void make_readable(std::span<const SlotId> members);
  void retire_group(std::span<const SlotId> members);
  void restore_group(std::span<const SlotId> members);
  void free_group(std::span<const SlotId> members);
  void return_slot(SlotId slot);
  void scan_ledgers();
  bool held(SlotId slot) const { return (held_bits_ >> slot.value & 1) != 0; }
  bool found_pinned(std::span<const SlotId> members) const;
  void decide(std::span<const SlotId> group);
  segment::SlotWord word_of(SlotId slot) const {
    return world_->area().slot(slot).load_word(std::memory_order_relaxed);
  }
  void store_state(SlotId slot, segment::SlotState state, std::uint8_t flags = 0);

  PageWorld* world_;
  segment::KeyIndexWriter index_;
  std::vector<segment::ChannelView> channels_;
  std::uint64_t held_bits_ = 0;   // what scans look for, by slot id
  std::uint64_t found_bits_ = 0;  // found by the last scan
  std::vector<SlotId> doomed_;
  std::uint32_t puts_ = 0;
};

}  // namespace orlop::interleaving
