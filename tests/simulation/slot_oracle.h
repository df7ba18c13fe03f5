// SPDX-License-Identifier: Apache-2.0
// Watches every store of a slot's state word and knows, independently of the code under test, who
// uses which slot. What it finds wrong:
//
//   * a transition that slot_word.h does not allow, a generation that does not grow by one
//   * memory given out while another slot that is not Free covers it
//   * a Prepared slot freed or published while its writer or a queued copy may write
//   * a slot freed while a validated pin refers to its generation
//   * a group doomed for no reason; a doomed generation readable again
//   * the first member of a group readable without the others, also after a kill
//   * a whole group lost by a restart; half a group readable after one
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "memory.h"
#include "removal_oracle.h"
#include "segment/control_area.h"
#include "verdict.h"

namespace orlop::simulation {

class SlotOracle {
 public:
  SlotOracle(const SegmentMemory& memory, const RemovalOracle& removals, Verdict& verdict);

  void area_formatted();  // a cold start: nothing of before counts
  // Any store to the control area; ignored unless it is a slot's word.
  void stored(const void* address, std::uint64_t before, std::uint64_t after);
  Sequence now() const { return now_; }
  const segment::ControlArea& area() const { return area_; }

  // ---- who may touch memory
  void writer_begins(PutId put, SlotId slot, Generation generation, const KeyId& key);
  void commit_posted(PutId put);
  void writer_ends(PutId put);  // nothing of it may write any more
  void reader_begins(SlotId slot, Generation generation);
  void reader_ends(SlotId slot, Generation generation);

  // ---- bytes
  // Its writer told two checksums for one page: the node trusts neither.
  void contradicted(PutId put) { contradicted_.insert(put); }
  void corrupt(SlotId slot, Generation generation);  // a client scribbled over it
  bool corrupted(SlotId slot, Generation generation) const;

  // When the generation became readable; 0 if it never was.
  Sequence readable_since(SlotId slot, Generation generation) const;

  // The page was readable in some slot at some time after `since`.
  bool page_readable_since(const KeyId& key, NamespaceIndex index, Sequence since) const;

  // ---- restart
  // serving: it had recovered; else what the server before it left is still the measure.
  void server_died(bool serving);
  void server_recovered();
  // Between the two: a few rows of readable slots get other fields. Their groups are lost, and
  // nobody else's.
  void damage_rows(Rng& rng);
  // Whenever no server is between two stores of a step, and where it died between them.
  void check_groups();
  // No page is readable twice, and the index has one entry for each readable slot and no other.
  void check_no_duplicates();

  // A look-up that began at `begun` did not find the page; the index switched places so often
  // meanwhile.
  void not_found(const KeyId& key, NamespaceIndex index, Sequence begun, std::uint32_t switches);
  // LocalReady lasts no longer than a step, unless a kill left its group partly Prepared.
  void check_published();

 private:
  using SlotVersion = std::pair<SlotId, Generation>;
  using GroupName = std::pair<PutId, std::uint16_t>;
  struct Member {
    SlotId slot;
    segment::SlotWord word;
    segment::GroupPlace place;
  };
  struct GroupView {
    std::vector<Member> members;
    std::size_t length() const { return members.front().place.length; }
    bool all_present() const;
    bool any_readable() const;
  };

  bool legal(segment::SlotWord before, segment::SlotWord after) const;
  // More switches during one look-up than it is promised to follow (pin.h).
  static constexpr std::uint32_t kLookUpSwitches = 2;

  void given_out(SlotId slot, segment::SlotWord word);
  void word_changed(SlotId slot, segment::SlotWord before, segment::SlotWord after);
  void restored(SlotId slot, segment::SlotWord word);
  void index_is_built(bool built);
  void check_index();
  void freed(SlotId slot, Generation generation);
  void left_prepared(SlotId slot, segment::SlotWord after);
  void doomed(SlotId slot, segment::SlotWord before);
  bool has_reason_to_be_doomed(SlotId slot) const;
  bool namespace_current(SlotId slot, NamespaceRow* row) const;
  std::map<GroupName, GroupView> groups() const;
  std::string name_of(SlotId slot, Generation generation) const;
  std::span<std::uint32_t> pages_of(SlotId slot);

  const SegmentMemory& memory_;
  const RemovalOracle& removals_;
  Verdict& verdict_;
  segment::ControlArea area_;  // a view that needs no header to be right
  bool formatted_ = false;
  Sequence now_ = 1;
  std::map<SlotId, std::pair<std::uint64_t, std::uint64_t>> extents_;  // pages, since given out
  std::vector<std::uint32_t> page_slot_;  // by 4 KiB page of the value area: slot that covers it
  std::map<SlotVersion, PutId> writers_;
  std::set<PutId> posted_;  // commits
  std::set<PutId> contradicted_;
  std::map<SlotVersion, std::uint32_t> readers_;
  std::map<SlotVersion, Sequence> readable_since_;
  std::map<std::pair<KeyId, NamespaceIndex>, Sequence> page_last_seen_;
  bool indexed_ = false;
  std::map<std::pair<KeyId, NamespaceIndex>, Sequence> committed_since_;  // while indexed_
  std::set<SlotVersion> doomed_;
  std::set<SlotVersion> corrupted_;
  bool damage_is_fresh_ = false;       // no server has recovered since
  std::set<SlotVersion> damaged_;      // their rows: what these say of their groups is not true
  std::map<SlotId, Generation> kept_;  // whole groups at the server's death
  std::set<GroupName> torn_;           // groups that a killed server left in pieces
};

}  // namespace orlop::simulation
