// SPDX-License-Identifier: Apache-2.0
// The node machine: construction, dispatch, time, background work.
#include <algorithm>
#include <bit>

#include "protocol/node/node_state.h"
#include "protocol/node/recovery.h"

namespace orlop::protocol {
namespace {

Result<NodeConfig> completed(NodeConfig config, const segment::Geometry& geometry) {
  const std::uint64_t value_bytes = geometry.value_bytes();
  if (config.reserve_bytes == 0) config.reserve_bytes = value_bytes / 50;
  if (config.prepared_cap_bytes == 0) config.prepared_cap_bytes = value_bytes / 4;
  if (config.max_pinned_bytes == 0) config.max_pinned_bytes = value_bytes / 4;
  const auto refuse = [](const char* field, std::uint64_t value, std::uint64_t least,
                         std::uint64_t most) {
    return fail(ErrorCode::kInvalidArgument, std::string(field) + " is " + std::to_string(value) +
                                                 "; allowed are " + std::to_string(least) + " to " +
                                                 std::to_string(most));
  };
  if (config.reserve_bytes > value_bytes)
    return refuse("reserve_bytes", config.reserve_bytes, 0, value_bytes);
  if (config.prepared_cap_bytes > value_bytes)
    return refuse("prepared_cap_bytes", config.prepared_cap_bytes, 0, value_bytes);
  if (config.max_pinned_bytes > value_bytes)
    return refuse("max_pinned_bytes", config.max_pinned_bytes, 0, value_bytes);
  if (config.max_space_wait > kNsPerSecond)
    return refuse("max_space_wait", config.max_space_wait, 0, kNsPerSecond);
  if (config.flush_slice_slots == 0 || config.flush_slice_slots > 1'000'000)
    return refuse("flush_slice_slots", config.flush_slice_slots, 1, 1'000'000);
  if (config.index_slice_buckets == 0 || config.index_slice_buckets > 1'000'000)
    return refuse("index_slice_buckets", config.index_slice_buckets, 1, 1'000'000);
  if (config.min_evict_groups == 0 || config.min_evict_groups > kMaxKeysPerPut)
    return refuse("min_evict_groups", config.min_evict_groups, 1, kMaxKeysPerPut);
  return config;
}

Result<std::unique_ptr<Node>> make_node(const segment::ControlArea& area, const NodeConfig& config,
                                        Incarnation incarnation, MonoNs now) {
  auto full = completed(config, area.geometry());
  if (!full) return std::unexpected(full.error());
  auto policy = make_policy(full->policy, area.geometry().slot_rows - 1);
  if (!policy) return std::unexpected(policy.error());
  return std::make_unique<Node>(area, *full, std::move(*policy), incarnation, now);
}

}  // namespace

Result<std::unique_ptr<NodeMachine>> NodeMachine::cold(segment::ControlArea area,
                                                       const NodeConfig& config,
                                                       Incarnation incarnation, MonoNs now) {
  auto node = make_node(area, config, incarnation, now);
  if (!node) return std::unexpected(node.error());
  (*node)->declare_ready();
  return std::unique_ptr<NodeMachine>(std::move(*node));
}

Result<std::unique_ptr<NodeMachine>> NodeMachine::recover(segment::ControlArea area,
                                                          const NodeConfig& config,
                                                          Incarnation incarnation,
                                                          std::vector<HandedOver> clients,
                                                          MonoNs now, RecoveryReport* report) {
  if (auto sound = check_slab_table(area); !sound) return std::unexpected(sound.error());
  auto node = make_node(area, config, incarnation, now);
  if (!node) return std::unexpected(node.error());
  RecoveryReport own;
  const auto done =
      (*node)->recover_from(std::move(clients), now, report == nullptr ? own : *report);
  if (!done) return std::unexpected(done.error());
  (*node)->declare_ready();
  return std::unique_ptr<NodeMachine>(std::move(*node));
}

Node::Node(segment::ControlArea area, const NodeConfig& config, std::unique_ptr<Policy> policy,
           Incarnation incarnation, MonoNs now)
    : area_(area),
      geometry_(area.geometry()),
      slab_shift_(static_cast<unsigned>(std::countr_zero(geometry_.ordinals_per_slab))),
      config_(config),
      allocator_(area),
      index_(area),
      policy_(std::move(policy)),
      links_(geometry_.slot_rows),
      in_flight_(area),
      held_bits_(geometry_.slot_rows),
      found_bits_(geometry_.slot_rows),
      marked_bits_(geometry_.slot_rows),
      busy_in_slab_(geometry_.slab_count),
      row_slots_(segment::kMaxNamespaceRows) {
  now_ = now;
  CHECK(std::has_single_bit(geometry_.ordinals_per_slab), "slab sizes are powers of two");
  segment::ControlHeader& header = area_.header();
  header.server_state.store(static_cast<std::uint32_t>(segment::ServerState::kRecovering));
  header.incarnation.store(incarnation.value);
  header.pin_cap_bytes.store(config_.max_pinned_bytes);
}

void Node::declare_ready() {
  area_.header().server_state.store(static_cast<std::uint32_t>(segment::ServerState::kReady));
}

// ---- events ----

void Node::step(const NodeEvent& event, MonoNs now, NodeEffects& effects) {
  now_ = now;
  std::visit([&](const auto& e) { handle(e, now, effects); }, event);
  after_event(now, effects);
}

void Node::put_start(const event::PutStart& e, MonoNs now, NodeEffects& effects) {
  now_ = now;
  handle(e, now, effects);
  after_event(now, effects);
}

void Node::put_commit(const event::PutCommit& e, MonoNs now, NodeEffects& effects) {
  now_ = now;
  handle(e, now, effects);
  after_event(now, effects);
}

void Node::handle(const event::Tick&, MonoNs now, NodeEffects&) {
  if (now < maintenance_at_) return;
  scan_only(now);
}

void Node::after_event(MonoNs now, NodeEffects& effects) {
  if (waiting_.empty()) return;
  if (space_freed_ || now >= next_claim_scan_ || now >= earliest_waiting_deadline())
    serve_waiting(now, effects);
}

// ---- time ----

MonoNs Node::earliest_waiting_deadline() const {
  MonoNs earliest = kNever;
  for (const WaitingPut& waiting : waiting_) earliest = std::min(earliest, waiting.deadline);
  return earliest;
}

MonoNs Node::next_deadline() const {
  if (waiting_.empty()) return maintenance_at_;
  if (PLANTED(kWaitingDeadlineForgotten)) return std::min(maintenance_at_, next_claim_scan_);
  return std::min({maintenance_at_, next_claim_scan_, earliest_waiting_deadline()});
}

// ---- background ----

bool Node::wants_background() const {
  return refill_due_ || flush_active_ || doomed_scan_due_ || index_.growing() ||
         (!punch_asked_ && index_.wants_punch());
}

// One bounded slice of the most urgent work.
void Node::run_background(MonoNs now, NodeEffects& effects) {
  now_ = now;
  if (const auto place = index_.wants_punch(); place && !punch_asked_) {
    punch_asked_ = true;
    effects.punch.push_back({*place});
  }
  if (index_.growing()) {
    SOMETIMES(index_.entries() > 0, "the index grows during traffic");
    index_.grow_slice(config_.index_slice_buckets);
  } else if (flush_active_ && doomed_unscanned_ < kDoomedPerScan) {
    flush_slice();
  } else if (doomed_scan_due_) {
    doomed_scan_due_ = false;
    scan_only(now);
  } else if (refill_due_) {
    drain_rings(kBackgroundTouches, kMissedOfAll, now);
    refill_due_ = refill_slice(now);
  }
  after_event(now, effects);
}

void Node::index_place_punched(unsigned place) {
  punch_asked_ = false;
  index_.punched(place);
}

}  // namespace orlop::protocol
