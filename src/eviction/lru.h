// SPDX-License-Identifier: Apache-2.0
// Leaf-first LRU over groups: the policy "lru".
//
// One doubly linked list per size class, ordered by last use. The evictor takes from the old end.
// When it meets a group with resident children there, it *parks* it: takes it off the list, so that
// no later call meets it again. A parked group comes back
//   * at the young end, when it is accessed;
//   * at the very old end, when its last child leaves: it was older than everything else when it
//   was
//     parked, and lists only grow at the young end. (Of several such groups the one freed last goes
//     first; their own order is not remembered.)
// So every skip is paid for by the insert, access or child that put the group where it was met.
//
// Parent links. A row counts the children that name it, whether its own group is resident or only
// awaited, and has an *epoch*; a child's link remembers the epoch it was made in and counts only
// while the two agree. When a group leaves with children, its epoch moves on: all links to it are
// cut in O(1), and a later group in the same slot starts with none. Leaf-first eviction itself
// never leaves children behind, so epochs move only at removed() and the like. Epochs are small;
// when one is used up, the resident groups are walked once to cut old links and it starts again at
// 0: one walk per kMaxEpoch + 1 removals of a group with children *from the same slot*. This is the
// only call that is not O(1) amortised in the strict sense.
//
// A selected child counts for its parent until it is settled (it may be restored); until then
// `departing_` says how many of a parent's children are on their way, so that the parent can be
// selected too.
//
// Memory: 22 bytes per slot id in a sparse array, a few KiB per class in use, and 4 to ~60 bytes
// per group pending at the same time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/sparse_array.h"
#include "eviction/policy.h"
#include "eviction/recency_samples.h"

namespace orlop {

class LruPolicy final : public Policy {
 public:
  static constexpr std::string_view kName = "lru";

  // Links of more children than this to one parent are not kept: the rest are taken as roots.
  static constexpr std::uint32_t kMaxChildren = (1u << 24) - 1;
  static constexpr std::uint32_t kMaxEpoch = (1u << 14) - 1;

  explicit LruPolicy(std::uint32_t max_slot_id);

  void inserted(const GroupInfo& info) override;
  void accessed(GroupRef group) override;
  void pinned(GroupRef group) override;
  void unpinned(GroupRef group) override;
  void removed(GroupRef group) override;
  std::uint64_t evict_some(std::uint16_t class_id, std::uint64_t bytes, std::uint32_t max_groups,
                           std::vector<Victim>& out) override;
  bool has_resident_children(const Victim& victim) const override;
  void freed(Victim&& victim) override;
  void restored_pinned(Victim&& victim) override;
  void obsolete(Victim&& victim) override;
  std::optional<std::uint64_t> oldest(std::uint16_t class_id) const override;
  std::uint64_t resident_bytes(std::uint16_t class_id) const override;
  std::string_view name() const override { return kName; }
  void validate() const override;

 private:
  enum class State : std::uint8_t {
    kAbsent = 0,  // no group here; children may await one
    kListed,      // in the list of its class
    kParked,      // has children and was met at the old end; in parked_
    kPinned,      // in pinned_
    kPending,     // selected; its Victim is out
  };

  // All-zero = absent, no children. Packed: this is the memory budget per slot.
  struct [[gnu::packed]] Row {
    std::uint32_t older;    // neighbour in its list, 0 = end; while pending: the victim's ticket
    std::uint32_t younger;  // neighbour in its list, 0 = end
    std::uint32_t parent;   // 0 = root
    std::uint16_t members;
    std::uint32_t children : 24;  // present groups whose link to this row is valid
    std::uint32_t class_id : 8;
    std::uint32_t epoch : 14;         // kept while absent
    std::uint32_t parent_epoch : 14;  // epoch of the parent's row when the link was made
    std::uint32_t state : 3;          // State
    std::uint32_t sampled : 1;        // its class has a recency sample of it
  };
  static_assert(sizeof(Row) == 22);

  struct List {
    std::uint32_t oldest = 0;
    std::uint32_t youngest = 0;
  };

  struct SizeClass {
    List list;
    std::uint64_t listed = 0;          // groups in `list`
    std::uint64_t present = 0;         // groups in any state but absent
    std::uint64_t resident_bytes = 0;  // listed, parked, pinned
    std::uint32_t slot_size_pages = 0;
    RecencySamples samples;
  };

  bool known(GroupRef group) const { return group.value != 0 && group.value < rows_.size(); }
  State state_of(std::uint32_t id) const { return static_cast<State>(rows_[id].state); }
  void set_state(std::uint32_t id, State state) { rows_[id].state = static_cast<unsigned>(state); }
  SizeClass& class_of(std::uint32_t id) { return classes_[rows_[id].class_id]; }
  std::uint64_t bytes_of(std::uint32_t id) const;

  void push_young(List& list, std::uint32_t id);
  void push_old(List& list, std::uint32_t id);
  void unlink(List& list, std::uint32_t id);

  void list_young(std::uint32_t id);
  void list_old(std::uint32_t id);
  void take_off(std::uint32_t id);  // off whichever list its state says
  void park(std::uint32_t id);
  void select_group(std::uint32_t id, std::vector<Victim>& out);

  bool link_valid(const Row& child) const;
  bool held_by_children(std::uint32_t id) const;
  void unpark_if_free(std::uint32_t id);
  void link_to_parent(Row& child, std::uint32_t parent);
  void child_no_longer_departing(std::uint32_t parent);
  void cut_children(std::uint32_t id);
  void cut_links_by_walking(std::uint32_t parent);
  void forget(std::uint32_t id);  // the group is gone; its row may serve another
  std::uint32_t end_pending(const Victim& victim);

  template <class Visit>
  void for_each_in(const List& list, Visit&& visit) const;
  template <class Visit>
  void for_each_present(Visit&& visit) const;
  void validate_class(std::uint16_t class_id) const;
  void validate_links() const;
  void validate_pending() const;

  SparseArray<Row> rows_;           // by slot id of the first member
  std::vector<SizeClass> classes_;  // kMaxClasses
  List parked_;
  List pinned_;
  std::uint64_t clock_ = 0;         // inserts and accesses so far
  std::uint32_t highest_used_ = 0;  // rows above were never written

  std::vector<std::uint32_t> pending_;  // by ticket: the group, 0 = none or removed meanwhile
  std::vector<std::uint32_t> free_tickets_;
  // By parent: how many of its counted children are pending. Never iterated except by validate().
  std::unordered_map<std::uint32_t, std::uint32_t> departing_;
};

template <class Visit>
void LruPolicy::for_each_in(const List& list, Visit&& visit) const {
  for (std::uint32_t id = list.oldest; id != 0; id = rows_[id].younger) visit(id);
}

template <class Visit>
void LruPolicy::for_each_present(Visit&& visit) const {
  for (const SizeClass& size_class : classes_) for_each_in(size_class.list, visit);
  for_each_in(parked_, visit);
  for_each_in(pinned_, visit);
  for (const std::uint32_t id : pending_) {
    if (id != 0) visit(id);
  }
}

}  // namespace orlop
