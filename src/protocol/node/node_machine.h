// SPDX-License-Identifier: Apache-2.0
// The node machine: puts, commits, removal, flush, eviction, drain, death and return of clients.
// One thread, pure: it reads and writes the control area and reads the clients' ledgers and touch
// rings over given spans; it knows no file, socket, thread or clock. `step(event, now) -> effects`.
//
// State x event table: docs/protocol/node.md. Precedence: never reuse memory that anyone may still
// touch; never offer half a group; then speed.
//
// The driver (src/runtime) turns ring messages into events (after copying and validating them:
// request_decoder.h), writes the answers back, calls step(Tick) at next_deadline() and
// run_background() while wants_background().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "eviction/policy.h"
#include "orlop/error.h"
#include "orlop/outcome.h"
#include "protocol/messages.h"
#include "protocol/node/inspect.h"
#include "protocol/node/missed_keys.h"
#include "protocol/node/namespace_traffic.h"
#include "segment/channel.h"
#include "segment/control_area.h"
#include "segment/report_counters.h"

namespace orlop::protocol {

struct NodeConfig {
  std::string policy = "lru";
  std::uint64_t reserve_bytes = 0;  // free slots kept ahead of demand; 0 = 2 % of the value area
  std::uint64_t prepared_cap_bytes = 0;   // per client; 0 = 25 % of the value area
  std::uint64_t max_pinned_bytes = 0;     // per client; 0 = 25 % of the value area
  MonoNs max_space_wait = 10 * kNsPerMs;  // of a put_start
  MonoNs writer_key_hold =
      10 * kNsPerSecond;                    // a Prepared older than this no longer blocks its key
  std::uint32_t flush_slice_slots = 4'096;  // slots looked at in one background slice
  std::uint32_t index_slice_buckets = 1'024;
  std::uint32_t min_evict_groups = 256;  // victims a scan pays for, at least
};

// ---- events --------------------------------------------------------------------------------
namespace event {

// A client is attached (descriptors are held by the keeper). `channel` stays mapped until the
// effect ChannelReclaimed names the client.
struct ClientAttached {
  ClientId client;
  segment::ChannelView channel;
  std::string name;  // for inspection
};
// The client came back after a server restart or a lost socket. It has reset its rings.
// held: put_ids that it still holds (kept commits included).
struct ClientResumed {
  ClientId client;
  std::vector<PutId> held;
};
// The client's socket is gone, its process may live: requests in waiting are dropped, nothing else.
struct ClientLost {
  ClientId client;
};
// Its pidfd fired: read pins go. Prepared slots stay while `fork_pipe_open`.
struct ClientDied {
  ClientId client;
  bool fork_pipe_open;
};
// The fork pipe of a dead client reached end-of-file: Prepared slots go.
struct ForkPipeClosed {
  ClientId client;
};

struct OpenNamespace {
  ClientId client;
  RequestId request;
  std::string_view text;
};
struct PutStart {
  ClientId client;
  RequestId request;
  PutId put;
  NamespaceRow row;
  std::uint32_t value_len;
  MonoNs wait_budget;
  std::span<const KeyId> keys;
  std::span<const std::uint32_t> group_lens;  // empty = one key per group
  std::optional<KeyId> parent;
};
struct PutCommit {
  ClientId client;
  RequestId request;
  PutId put;
  std::span<const CommitEntry> entries;
};
struct PutAbort {
  ClientId client;
  RequestId request;
  PutId put;
};
struct Remove {
  ClientId client;
  RequestId request;
  NamespaceRow row;
  std::span<const KeyId> keys;
};
struct Flush {
  ClientId client;
  RequestId request;
  NamespaceRow row;
  bool family;
};
struct ReportMismatch {
  ClientId client;
  RequestId request;
  MismatchReport report;
};
// Answer of the driver to effect VerifyValue.
struct ValueVerified {
  ClientId reporter;
  SlotId slot;
  Generation generation;
  bool matches;
};
struct Detach {
  ClientId client;
  RequestId request;
};
// No new puts from here on (or again). Kept in the control area, so it outlives this server.
struct Drain {
  ClientId client;
  RequestId request;
  DrainMode mode;
};
struct Tick {};

}  // namespace event

using NodeEvent =
    std::variant<event::ClientAttached, event::ClientResumed, event::ClientLost, event::ClientDied,
                 event::ForkPipeClosed, event::OpenNamespace, event::PutStart, event::PutCommit,
                 event::PutAbort, event::Remove, event::Flush, event::ReportMismatch,
                 event::ValueVerified, event::Detach, event::Drain, event::Tick>;

// ---- effects -------------------------------------------------------------------------------
// An answer to one request. Spans point into the NodeEffects object, valid until its clear().
struct NodeAnswer {
  ClientId client;
  RequestId request;
  RequestCode code;
  std::uint64_t status = kStatusOk;   // else ErrorCode
  std::uint64_t args[3] = {0, 0, 0};  // OpenNamespace: row, index, value_len; others: messages.h
  std::uint32_t first_grant = 0, first_outcome = 0, count = 0;  // into grants / outcomes
  std::uint32_t text = kNoText;  // into texts (error text, or no_space explanation)
  static constexpr std::uint32_t kNoText = ~std::uint32_t{0};
};
struct VerifyValue {  // recompute the checksum of a slot that the node has pinned
  ClientId reporter;
  SlotId slot;
  Generation generation;
  std::uint32_t value_len;
  KeyId key;
  std::uint64_t namespace_digest;
  std::uint64_t expected;
};
struct ChannelReclaimed {
  ClientId client;
};  // nothing of it is left: unmap, tell the keeper
struct CloseClient {
  ClientId client;
  std::string why;
};  // malformed or over its limits
struct PunchIndexPlace {
  unsigned place;
};  // driver punches it, then index_place_punched()

struct NodeEffects {
  std::vector<NodeAnswer> answers;
  std::vector<SlotGrant> grants;
  std::vector<Outcome> outcomes;
  std::vector<std::string> texts;
  std::vector<VerifyValue> verify;
  std::vector<ChannelReclaimed> reclaimed;
  std::vector<CloseClient> close;
  std::vector<PunchIndexPlace> punch;
  void clear();  // keeps capacity
};

// ---- what it tells about itself --------------------------------------------------------------
struct NodeCounters {  // all since this server's start; metrics names in docs/operations/metrics.md
  std::uint64_t put_starts = 0, keys_offered = 0;
  std::uint64_t outcomes[kOutcomeCount] = {};  // of put_start and commit answers, by Outcome
  std::uint64_t commits = 0, commit_bytes = 0, aborts = 0;
  std::uint64_t groups_selected = 0, groups_freed = 0, groups_restored = 0, groups_obsolete = 0;
  std::uint64_t slots_evicted = 0, bytes_evicted = 0;
  std::uint64_t scans = 0, cells_scanned = 0;
  std::uint64_t touches = 0, touches_lost = 0;
  std::uint64_t removed_slots = 0, flushed_slots = 0, flushes = 0;
  std::uint64_t mismatch_reports = 0, mismatches_confirmed = 0, false_mismatches = 0;
  std::uint64_t clients_attached = 0, clients_resumed = 0, clients_died = 0, clients_detached = 0;
  std::uint64_t prepared_reclaimed =
      0;  // freed after death, detach or a resume that did not hold them
  std::uint64_t space_waits = 0;
  std::array<std::uint64_t, kMissCauseCount> missed{};  // sampled keys by cause
  std::uint64_t missed_lost = 0;                        // sampled keys lost to full rings
  MonoNs missed_evicted_age = 0;  // sum: how long ago those of cause evicted had left
};
struct ClientGauges {
  ClientId client;
  std::string name;
  bool dead = false, held_by_fork = false, lost = false;
  std::uint64_t prepared_slots = 0, prepared_bytes = 0, pinned_cells = 0, pinned_bytes = 0;
  std::uint64_t open_puts = 0;
  MonoNs oldest_put_age = 0;
  bool over_pin_budget = false;
  // As the client reports it, at most a second old; its word alone.
  segment::ReportCounters traffic;
  std::uint64_t attaches = 0, open_read_plans = 0, open_handles = 0;
  MonoNs oldest_read_plan_age = 0;  // 0: none is open
  MonoNs report_age = 0;            // of what is reported here; 0 before the first
  MonoNs attached_for = 0;          // since it attached to, or was taken over by, this server
};
struct NodeGauges {
  std::uint64_t slots_by_state[segment::kSlotStateCount] = {};  // sums to total_slots
  std::uint64_t total_slots = 0;                                // of assigned slabs
  std::uint64_t resident_bytes = 0;                             // readable, by slot size
  std::uint64_t prepared_bytes = 0, pinned_groups = 0, doomed_slots = 0;
  std::uint64_t waiting_puts = 0, open_puts = 0, namespaces = 0, index_entries = 0,
                index_buckets = 0;
  std::uint32_t slabs = 0, common_slabs = 0;
  std::uint64_t pin_cap_bytes = 0;
  bool flush_pending = false;
  bool draining = false;  // new puts are not admitted
  Policy::Counters policy;
};

struct RecoveryReport {
  std::uint64_t slots_walked = 0, groups_kept = 0, slots_kept = 0, slots_doomed = 0,
                prepared_kept = 0, prepared_freed = 0, retiring_restored = 0;
  // Channels that an earlier server had reclaimed, whose keeper died before it heard of it. The
  // machine does not know these clients; the driver tells the keeper again.
  std::vector<ClientId> reclaimed;
};

class NodeMachine {
 public:
  // Cold start: `area` freshly formatted. Errors: unknown policy, config values out of limits.
  static Result<std::unique_ptr<NodeMachine>> cold(segment::ControlArea area,
                                                   const NodeConfig& config,
                                                   Incarnation incarnation, MonoNs now);
  // Warm start: `clients` = every channel the keeper handed over, dead ones included. Decides by
  // group, frees only by the ordinary order, rebuilds index, allocator and policy.
  struct HandedOver {
    ClientId client;
    segment::ChannelView channel;
    std::string name;
  };
  static Result<std::unique_ptr<NodeMachine>> recover(segment::ControlArea area,
                                                      const NodeConfig& config,
                                                      Incarnation incarnation,
                                                      std::vector<HandedOver> clients, MonoNs now,
                                                      RecoveryReport* report);
  virtual ~NodeMachine() = default;

  // Appends to `effects`; the caller clears it. Spans in the event need to live for the call only.
  virtual void step(const NodeEvent& event, MonoNs now, NodeEffects& effects) = 0;
  // Hot calls without a variant; the same as step().
  virtual void put_start(const event::PutStart& e, MonoNs now, NodeEffects& effects) = 0;
  virtual void put_commit(const event::PutCommit& e, MonoNs now, NodeEffects& effects) = 0;

  // Bounded slice of refill, index growth, flush, freeing of doomed slots. Call while
  // wants_background(), between events; answers first.
  virtual bool wants_background() const = 0;
  virtual void run_background(MonoNs now, NodeEffects& effects) = 0;
  virtual void index_place_punched(unsigned place) = 0;
  // Earliest time at which step(Tick) is needed (waiting puts, spaced scans); kNever if none.
  virtual MonoNs next_deadline() const = 0;

  // Reads what clients left in their channels for the books below: reports, touches and missed
  // keys (bounded), and counts their pins unless that was done a moment ago. Before a snapshot.
  virtual void read_clients(MonoNs now) = 0;
  // Sum of all clients' reports since this server's start, those that left included; never falls.
  virtual const segment::ReportCounters& traffic() const = 0;
  virtual const NodeCounters& counters() const = 0;
  virtual NodeGauges gauges(MonoNs now) const = 0;  // whatever the number of clients and slots
  // Pins: of the last read_clients(), drain or scan.
  virtual std::vector<ClientGauges> clients(MonoNs now) const = 0;
  struct NamespaceGauge {
    NamespaceRow row;
    NamespaceIndex index;
    std::uint32_t value_len;
    std::string_view text;
    std::uint64_t slots;           // readable slots of the current index
    std::uint64_t readable_bytes;  // of these, by slot size
    NamespaceTraffic traffic;
  };
  virtual std::vector<NamespaceGauge> namespaces() const = 0;
  virtual InspectAnswer inspect(const InspectQuestion& question, MonoNs now) const = 0;
  virtual void validate() const = 0;  // O(n): table, index, allocator, policy agree; CHECKs
};

}  // namespace orlop::protocol
