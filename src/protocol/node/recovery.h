// SPDX-License-Identifier: Apache-2.0
// Warm start: from the slot table alone back to a working node. Design 10 section 5.
//
// Verdicts on the members of one group (put id, group number):
//   * A row that is not Prepared and torn, or whose value needs slots of another size than its slab
//     has: doomed; its group is one short then.
//   * A put of a client that was handed over has slots of two sizes: the start is refused.
//   * All Prepared, owner handed over: kept, for its commit, abort, resume or death.
//   * All Prepared, owner not handed over: freed, since writers own no ledger cells.
//   * All there, each Committed, LocalReady or plain Retiring, sums good, namespace index current:
//     all Committed.
//   * First Prepared, others Prepared or LocalReady, all there, sums good, index current, owner
//     handed over: kept as *partly ready*; its owner's resume decides.
//   * Anything else (a member missing or doomed, an old index): readable and Retiring members
//     doomed, Prepared ones freed.
//
// Order of acts: all words doomed -> full fence -> scan of all ledgers -> unpinned doomed slots
// freed. A kill between any two stores leaves a table with the same verdicts or stricter ones: a
// dropped group never has all members back, a kept one is never short of one.
//
// Walks only ordinals that belong to slots of assigned slabs: reading a hole allocates a page.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

// Errors: kCorrupt, if a slab has a class that no node assigns. Before anything is built on it.
Result<void> check_slab_table(const segment::ControlArea& area);

class Recovery {
 public:
  Recovery(Node& node, MonoNs now, RecoveryReport& report)
      : node_(node), now_(now), report_(report) {}
  // Errors: kCorrupt, when the tables contain what no node writes.
  Result<void> run(std::vector<NodeMachine::HandedOver> clients);

 private:
  struct Found {  // a slot that is not Free, of a group that must be looked at as a whole
    std::uint64_t put;
    std::uint32_t slot;
    std::uint16_t number, index;
  };
  struct Kept {
    SlotId leader;
    std::uint16_t members;
    std::uint16_t age;  // of its most recent member, in recency units
  };
  struct Census {
    std::uint32_t committed = 0, local_ready = 0, retiring = 0, doomed = 0, prepared = 0;
    bool complete = false, current = false, first_prepared = false;
  };

  Result<void> walk();
  Result<void> walk_slab(SlabId slab, std::uint32_t slots);
  bool take_single(SlotId slot, SlotWord word);
  void decide_all();
  void decide(std::span<const Found> group);
  Census count(std::span<const Found> group) const;
  bool torn(SlotId slot, SlotWord word) const;
  bool misplaced(SlotId slot) const;
  bool owner_lives(std::span<const Found> group) const;

  void keep_readable(std::span<const Found> group);
  void keep_one(SlotId slot, SlotWord word);
  void keep_prepared(std::span<const Found> group);
  void begin_prepared(SlotId slot, PutRecord& put);
  void keep_partly(std::span<const Found> group);
  void drop(std::span<const Found> group);
  void decide_by_slot(std::span<const Found> group);  // a planted bug
  void link(std::span<const Found> group);
  PutRecord& put_of(const Found& member);
  void check_size(SlotId slot, const PutRecord& put);
  void promote(SlotId slot);
  void count_readable(SlotId slot);
  void doom(SlotId slot);
  void free_prepared(SlotId slot);

  void rebuild_index();
  void fill_policy();
  void cut_cycles();

  Node& node_;
  const MonoNs now_;
  RecoveryReport& report_;
  std::vector<Found> found_;
  std::vector<Kept> kept_;
  std::vector<SlotId> partly_;          // leaders
  Result<void> sizes_;                  // the first put that is found with slots of two sizes
  SparseArray<std::uint32_t> parents_;  // by leader: leader of its parent group, 0 = root
};

}  // namespace orlop::protocol
