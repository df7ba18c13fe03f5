// SPDX-License-Identifier: Apache-2.0
// The node machine's private state and the functions its files share. Include only in this folder.
//
// Words. *Group*: members of one put that come and go together, named by the slot of the first
// member (its leader). *Partly ready* group: the server died inside its commit, some members are
// LocalReady, the rest Prepared; exists only after recovery, until its owner resumes or dies; it is
// in the index as far as it is readable, but not in the eviction policy. *Marked*: a scan found the
// group pinned; the policy does not offer it until a scan finds it free.
//
// Private memory per slot: 8 bytes (Link), 3 bits, the policy's row. Everything else is per group
// that is Prepared, marked, doomed or waiting.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/planted.h"
#include "base/sparse_array.h"
#include "protocol/node/duplicate_finder.h"
#include "protocol/node/in_flight_map.h"
#include "protocol/node/node_machine.h"
#include "protocol/node/records.h"
#include "protocol/node/size_classes.h"
#include "protocol/node/slot_bits.h"
#include "segment/key_id.h"
#include "segment/key_index.h"
#include "segment/slot_allocator.h"

namespace orlop::protocol {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;

// ---- limits and constants ----
// A put_start that finds this much waiting already is answered at once.
inline constexpr std::size_t kMaxWaitingPuts = 256;
inline constexpr std::uint64_t kMaxWaitingKeys = 1'000'000;
// Modelled cost of reading one ledger cell in a scan: an eighth of a cache line, streamed (measured
// 0.6-1 ns). A model, not a clock: the same run gives the same spacing.
inline constexpr MonoNs kScanNsPerCell = 1;
inline constexpr MonoNs kMinScanSpacing = 10 * kNsPerMs;  // design 10 section 4
inline constexpr MonoNs kMaxScanBackoff = kNsPerSecond;   // while nobody waits and nothing changes
// Up to this many cells a scan costs less than freeing a few dozen slots.
inline constexpr std::uint64_t kCheapScanCells = 16'384;
inline constexpr std::uint32_t kMaxRefillGroups = 1'024;    // victims of one background slice
inline constexpr int kMaxEvictRounds = 8;                   // of one claim and step
inline constexpr std::uint32_t kMaxStolenSlabs = 4;         // of one step
inline constexpr std::uint32_t kDoomedPerScan = 16'384;     // a flush scans after so many
inline constexpr std::uint32_t kBackgroundTouches = 4'096;  // per client and slice
// Missed keys looked at, where a key counts 1 and each other namespace it is looked up in as well:
// of one client at its own requests, of all before something leaves, and of all for a status (1 to
// 2 ms).
inline constexpr std::uint32_t kMissedPerEvent = 64;
inline constexpr std::uint32_t kMissedOfAll = 1'024;
inline constexpr std::uint32_t kMissedPerStatus = 16'384;
inline constexpr std::uint32_t kMaxSiblings = 64;  // other namespaces of a family looked at
// Slots under verification at once. A client has one, but may go and come again meanwhile.
inline constexpr std::size_t kMaxNodePins = 256;
inline constexpr char kDrainingText[] =
    "not admitted: the node is draining and takes no new puts; reads and puts under way go on; "
    "`orlop drain --undo` ends it";
inline constexpr MonoNs kRecencyUnit = 4 * kNsPerSecond;  // of SlotWord::recency; wraps in 72 h

class Node final : public NodeMachine {
 public:
  // Over a fresh area; over one with a past call recover_from() before anything else.
  Node(segment::ControlArea area, const NodeConfig& config, std::unique_ptr<Policy> policy,
       Incarnation incarnation, MonoNs now);
  Result<void> recover_from(std::vector<HandedOver> clients, MonoNs now, RecoveryReport& report);
  void declare_ready();

  void step(const NodeEvent& event, MonoNs now, NodeEffects& effects) override;
  void put_start(const event::PutStart& e, MonoNs now, NodeEffects& effects) override;
  void put_commit(const event::PutCommit& e, MonoNs now, NodeEffects& effects) override;
  bool wants_background() const override;
  void run_background(MonoNs now, NodeEffects& effects) override;
  void index_place_punched(unsigned place) override;
  MonoNs next_deadline() const override;
  void read_clients(MonoNs now) override;
  const segment::ReportCounters& traffic() const override { return traffic_; }
  const NodeCounters& counters() const override { return counters_; }
  NodeGauges gauges(MonoNs now) const override;
  std::vector<ClientGauges> clients(MonoNs now) const override;
  std::vector<NamespaceGauge> namespaces() const override;
  InspectAnswer inspect(const InspectQuestion& question, MonoNs now) const override;
  void validate() const override;

 private:
  using SizeClass = SizeClasses::Number;

  struct Link {
    std::uint32_t leader;  // slot id of the group's first member
    std::uint32_t next;    // next member of the group, 0 = last
  };
  // What a put_start is going to answer; reused between calls.
  struct PutPlan {
    std::vector<Outcome> outcomes;  // kPrepared = wants memory
    std::vector<SlotId> readable;   // by key: the slot that has it already, 0 = none
    std::vector<SlotId> taken;
    std::uint32_t wanted = 0;  // slots
    bool over_quota = false;
    bool not_admitted = false;  // the node drains
    bool contended = false;     // a key is taken over from a stopped writer
  };
  // The slot before a group, for the parent edge.
  struct Ancestor {
    SlotId slot;
    Generation generation;
  };

  // -- node.cpp: dispatch, time, background
  void handle(const event::ClientAttached& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ClientResumed& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ClientLost& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ClientDied& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ForkPipeClosed& e, MonoNs now, NodeEffects& effects);
  void handle(const event::OpenNamespace& e, MonoNs now, NodeEffects& effects);
  void handle(const event::PutStart& e, MonoNs now, NodeEffects& effects);
  void handle(const event::PutCommit& e, MonoNs now, NodeEffects& effects);
  void handle(const event::PutAbort& e, MonoNs now, NodeEffects& effects);
  void handle(const event::Remove& e, MonoNs now, NodeEffects& effects);
  void handle(const event::Flush& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ReportMismatch& e, MonoNs now, NodeEffects& effects);
  void handle(const event::ValueVerified& e, MonoNs now, NodeEffects& effects);
  void handle(const event::Detach& e, MonoNs now, NodeEffects& effects);
  void handle(const event::Drain& e, MonoNs now, NodeEffects& effects);
  void handle(const event::Tick& e, MonoNs now, NodeEffects& effects);
  void after_event(MonoNs now, NodeEffects& effects);
  MonoNs earliest_waiting_deadline() const;
  std::uint16_t coarse(MonoNs now) const { return static_cast<std::uint16_t>(now / kRecencyUnit); }

  // -- answers.cpp
  NodeAnswer& answer(NodeEffects& effects, ClientId client, RequestId request, RequestCode code);
  void answer_error(NodeEffects& effects, ClientId client, RequestId request, RequestCode code,
                    ErrorCode status, std::string text);
  void attach_text(NodeEffects& effects, NodeAnswer& to, std::string text);
  std::string describe_pool(SizeClass size_class) const;
  std::string describe_quota(const ClientRecord& client) const;

  // -- slots.cpp: one slot, one group
  SlabId slab_of(SlotId slot) const { return SlabId{(slot.value - 1) >> slab_shift_}; }
  std::uint32_t ordinal_of(SlotId slot) const {
    return (slot.value - 1) & ((std::uint32_t{1} << slab_shift_) - 1);
  }
  std::uint32_t class_pages_of(SlotId slot) const;  // 0 = its slab is unassigned
  // The id names a slot of an assigned slab. Rows of other ids are holes: never read them.
  bool known_slot(SlotId slot) const;
  std::uint64_t slot_bytes_of(SlotId slot) const;
  // The row whose current index this is; nullopt: flushed. Remembers the last one: whole batches
  // ask.
  std::optional<std::uint32_t> row_of(NamespaceIndex ns) const;
  bool is_current(NamespaceIndex ns) const { return row_of(ns).has_value(); }
  void count_readable(NamespaceIndex ns, std::int64_t delta);
  void store_word(SlotId slot, SlotWord before, SlotWord after);
  Generation prepare_slot(SlotId slot, SlotId leader, SlotId next,
                          const segment::SlotFields& fields, PutRecord& put, MonoNs now);
  void prepared_began(SlotId slot, const KeyId& key, NamespaceIndex ns, PutRecord& put);
  void prepared_ended(SlotId slot, const KeyId& key, NamespaceIndex ns, PutRecord& put);
  void free_prepared(SlotId slot, PutRecord& put, MissCause cause);
  void doom_slot(SlotId slot, MissCause cause);
  void remember_gone(SlotId slot, MissCause cause);
  void return_slot(SlotId slot);  // Retiring (or Retiring|doomed) -> Free
  void collect_members(SlotId leader, std::vector<SlotId>& out) const;
  // Readable members are doomed, Prepared ones freed. Returns slots doomed. Does not close the put.
  std::uint64_t drop_group(SlotId leader, PutRecord* put, MissCause cause);
  // drop_group(), then sweeps its put if open.
  std::uint64_t drop_group_of_put(SlotId leader, MissCause cause);
  SlotId parent_group_of(SlotId leader) const;
  void mark_pinned(SlotId leader);
  void unmark(SlotId leader);
  void hold(SlotId slot);  // a scan has to look for it
  void unhold(SlotId slot);

  // -- put.cpp, waiting.cpp
  std::optional<std::string> refuse_put(const event::PutStart& put);
  void plan_put(const event::PutStart& put, NamespaceIndex ns, const ClientRecord& client,
                MonoNs now);
  bool blocked_by_writer(const KeyId& key, NamespaceIndex ns, MonoNs now);
  void decide_groups(const event::PutStart& put, const ClientRecord& client);
  bool try_put(const event::PutStart& put, NamespaceIndex ns, ClientRecord& client, MonoNs now,
               bool may_wait, bool behind, NodeEffects& effects);
  void grant_put(const event::PutStart& put, NamespaceIndex ns, ClientRecord& client, MonoNs now,
                 NodeEffects& effects);
  void grant_group(const event::PutStart& put, std::uint32_t first, std::uint32_t first_taken,
                   segment::SlotFields& fields, PutRecord& record, MonoNs now,
                   std::span<SlotGrant> grants);
  void answer_put(const event::PutStart& put, const ClientRecord& client, bool no_space,
                  std::uint32_t first_grant, NodeEffects& effects);
  void count_outcomes(const event::PutStart& put);
  void answer_whole_put(const event::PutStart& put, Outcome outcome, NodeEffects& effects);
  bool may_enqueue(const event::PutStart& put) const;
  void enqueue(const event::PutStart& put, NamespaceIndex ns, MonoNs deadline);
  void serve_waiting(MonoNs now, NodeEffects& effects);
  void drop_waiting_of(ClientId client);
  bool abort_waiting(PutId put, NodeEffects& effects);
  bool has_waiting(SizeClass size_class) const;
  bool is_waiting(PutId put) const;

  // -- commit.cpp
  std::uint32_t commit_group(const event::PutCommit& e, std::uint32_t first, PutRecord* put,
                             MonoNs now, std::span<Outcome> out);
  bool commit_single(const CommitEntry& entry, PutRecord& put, MonoNs now);
  bool names_live_slot(PutId put, const CommitEntry& entry) const;
  std::uint32_t entries_of_group(const event::PutCommit& e, std::uint32_t first, SlotId leader,
                                 bool* whole);
  Outcome outcome_of_lost(const PutRecord* put) const;
  bool answer_exists(std::span<Outcome> out) const;
  bool checksums_agree(std::span<const CommitEntry> entries) const;
  void make_readable(std::span<const CommitEntry> entries, PutRecord& put, MonoNs now);
  void warn_other_writer(SlotId slot);
  void insert_stored(const PutRecord& put);
  void sweep_put(PutTable::iterator put);  // forgets ended groups; closes the put with the last
  std::uint64_t end_put(PutTable::iterator put);  // drops all its groups and closes it

  // -- scan.cpp
  void drain_rings(std::uint32_t touches, std::uint32_t missed, MonoNs now);
  void drain_touches(ClientRecord& client, std::uint32_t limit, MonoNs now);
  void touched(SlotId slot, std::uint16_t recency, SlotId* last);
  void scan_ledgers();
  void count_pins(MonoNs least_spacing, MonoNs now);
  void publish_pin_cap(std::uint64_t pinned_total);
  void scan_only(MonoNs now);
  void finish_scan(MonoNs now);  // gives back, frees doomed, plans the next
  std::uint32_t give_back_unpinned();
  std::uint32_t free_doomed();
  bool found_pinned(std::span<const SlotId> members) const;

  // -- evict.cpp, steal.cpp
  std::uint64_t available(SizeClass c) const { return allocator_.available(value_len_of(c)); }
  std::uint32_t value_len_of(SizeClass c) const {
    return static_cast<std::uint32_t>(classes_.bytes(c));
  }
  void retire_group(SlotId leader);
  void restore_group(std::span<const SlotId> members);
  void free_group(std::span<const SlotId> members);
  // The uninterrupted step. Returns slots freed of victims.
  std::uint64_t evict(SizeClass c, std::uint64_t bytes, std::uint32_t max_groups, MonoNs now);
  bool settle(Victim& victim);
  void make_room(SizeClass c, std::uint64_t slots, MonoNs now);
  std::uint64_t reserve_slots(SizeClass c) const;
  std::uint64_t eviction_target(SizeClass c, std::uint64_t slots, int round) const;
  bool refill_slice(MonoNs now);
  bool steal_slabs(SizeClass c, std::uint64_t slots, MonoNs now);
  std::optional<SizeClass> coldest_class_but(SizeClass c) const;
  std::optional<SlabId> coldest_slab(SizeClass c, std::span<const SlabId> chosen, MonoNs now) const;
  std::uint64_t coldness(SlabId slab, std::uint32_t pages, MonoNs now) const;
  void retire_slab(SlabId slab, std::uint32_t pages, std::vector<SlotId>& leaders);

  // -- remove_flush.cpp, mismatch.cpp
  std::optional<std::string> refuse_row(NamespaceRow row) const;
  bool advance_namespace(NamespaceRow row);
  void flush_slice();

  // -- clients.cpp
  ClientRecord* find_client(ClientId id);
  void free_prepared_of(ClientRecord& client, std::span<const PutId> held);
  void drop_partly_ready_of(ClientId client);
  void reclaim(ClientRecord& client, NodeEffects& effects);

  // -- missed_keys.cpp
  std::optional<GoneKeys::Gone> why_left(const KeyId& key, std::uint32_t row, MonoNs now) const;
  MissCause why_missed(const KeyId& key, std::uint32_t row, MonoNs* age,
                       std::uint32_t* looked_at) const;
  std::uint32_t count_missed(const segment::MissedKey& missed);
  void drain_missed(ClientRecord& client, std::uint32_t& budget);
  void drain_all_missed(std::uint32_t budget);

  // -- namespaces.cpp
  std::optional<NamespaceRow> find_namespace(std::string_view text, const segment::Digest& digest,
                                             bool* conflict) const;
  std::optional<NamespaceIndex> next_namespace_index();
  Result<void> load_namespaces();
  void row_opened();

  // -- recover.cpp, recover_groups.cpp
  friend class Recovery;
  friend class Inspector;  // inspect.cpp; const

  // -- validate.cpp
  void validate_slots() const;
  void validate_totals() const;

  segment::ControlArea area_;
  const segment::Geometry geometry_;
  const unsigned slab_shift_;  // log2 of the slot ids per slab
  const NodeConfig config_;    // with the defaults filled in
  segment::SlotAllocator allocator_;
  segment::KeyIndexWriter index_;
  std::unique_ptr<Policy> policy_;
  SizeClasses classes_;
  SparseArray<Link> links_;  // by slot id; valid while the slot is Prepared or readable
  InFlightMap in_flight_;
  PutTable puts_;
  std::map<ClientId, ClientRecord> clients_;
  DuplicateFinder duplicates_;

  // What scans look for: members of victims and marked groups, doomed slots, node pins.
  SlotBits held_bits_;
  SlotBits found_bits_;   // found in a ledger by the current scan
  SlotBits marked_bits_;  // by leader
  std::vector<SlotId> found_;
  std::vector<SlotId> marked_;  // leaders; entries without their bit are stale
  std::vector<SlotId> doomed_;
  std::vector<NodePin> node_pins_;
  std::vector<std::uint32_t> busy_in_slab_;  // Prepared, doomed and marked slots by slab
  std::uint64_t marked_groups_ = 0;

  // Drain. The flag is the control area's, read once: it lies beside words that clients read.
  bool draining_ = false;

  // Time.
  MonoNs next_claim_scan_ = 0;      // a claim that scans could not satisfy waits till then
  MonoNs maintenance_at_ = kNever;  // scan for marked and doomed while nothing else scans
  MonoNs maintenance_backoff_ = kMinScanSpacing;
  std::uint64_t last_scan_cells_ = 0;
  MonoNs pins_counted_at_ = 0;    // 0: never
  MonoNs pins_counted_cost_ = 0;  // then, modelled
  std::uint32_t given_back_ = 0;  // groups, by the last scan

  // Background.
  bool refill_due_ = false;
  bool space_freed_ = false;  // since waiting puts were last looked at
  bool doomed_scan_due_ = false;
  std::uint64_t doomed_unscanned_ = 0;
  bool flush_active_ = false, flush_again_ = false;
  std::uint32_t flush_slab_ = 0, flush_ordinal_ = 0;
  bool punch_asked_ = false;
  std::uint64_t indexed_slots_ = 0;  // assigned slots that the index was asked to have room for

  std::deque<WaitingPut> waiting_;
  std::uint64_t waiting_keys_ = 0;

  // Namespaces. current_rows_ is for look-ups only.
  std::unordered_map<std::uint32_t, std::uint32_t> current_rows_;   // current index -> row
  mutable std::pair<std::uint32_t, std::uint32_t> last_row_{0, 0};  // of row_of(); index 0 = none
  std::vector<std::uint64_t> row_slots_;  // readable slots of current index
  std::vector<NamespaceRecord> rows_;
  std::vector<std::vector<std::uint32_t>> families_;  // their rows
  std::uint32_t rows_used_ = 0;

  // Totals.
  NodeCounters counters_;
  segment::ReportCounters traffic_;
  GoneKeys gone_;
  ClientId missed_drained_{};  // the last client whose missed keys were looked at
  MonoNs now_ = 0;             // of the call that runs
  std::uint64_t slots_in_state_[segment::kSlotStateCount] = {};  // Free is derived
  std::uint64_t resident_bytes_ = 0, prepared_bytes_ = 0;

  // Scratch.
  PutPlan plan_;
  std::vector<Victim> victims_;  // a member: an abandoned simulation must not drop them
  std::vector<SlotId> members_, group_members_, stored_;
};

}  // namespace orlop::protocol

#include "protocol/node/node_inline.h"
