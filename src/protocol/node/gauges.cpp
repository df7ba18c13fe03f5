// SPDX-License-Identifier: Apache-2.0
// What the node tells about itself.
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

namespace {

// Of a time that a client told: one in the future is forged.
MonoNs age_of(MonoNs told, MonoNs now) {
  return told != 0 && told < now ? now - told : 0;
}

}  // namespace

void Node::read_clients(MonoNs now) {
  now_ = now;
  drain_rings(kBackgroundTouches, kMissedPerStatus, now);
  count_pins(0, now);
  for (auto& [id, client] : clients_)
    segment::fold(segment::load_counters(client.channel.report()), client.reported, traffic_);
}

NodeGauges Node::gauges(MonoNs now) const {
  (void)now;
  NodeGauges g;
  std::uint64_t used = 0;
  for (int state = 1; state < segment::kSlotStateCount; ++state) {
    g.slots_by_state[state] = slots_in_state_[state];
    used += slots_in_state_[state];
  }
  g.total_slots = allocator_.assigned_slots();
  g.slots_by_state[static_cast<int>(SlotState::kFree)] = g.total_slots - used;
  g.resident_bytes = resident_bytes_;
  g.prepared_bytes = prepared_bytes_;
  g.pinned_groups = marked_groups_;
  g.doomed_slots = doomed_.size();
  g.waiting_puts = waiting_.size();
  g.open_puts = puts_.size();
  g.namespaces = rows_used_;
  g.index_entries = index_.entries();
  g.index_buckets = index_.buckets();
  g.common_slabs = allocator_.common_slabs();
  g.slabs = geometry_.slab_count - g.common_slabs;
  g.pin_cap_bytes = area_.header().pin_cap_bytes.load(std::memory_order_relaxed);
  g.flush_pending = flush_active_;
  g.draining = draining_;
  g.policy = policy_->counters();
  return g;
}

std::vector<ClientGauges> Node::clients(MonoNs now) const {
  std::vector<ClientGauges> all;
  const std::uint64_t cap = area_.header().pin_cap_bytes.load(std::memory_order_relaxed);
  for (const auto& [id, client] : clients_) {
    ClientGauges& g = all.emplace_back();
    g.client = id;
    g.name = client.name;
    g.dead = client.dead;
    g.held_by_fork = client.dead && client.fork_open;
    g.lost = client.lost;
    g.prepared_slots = client.prepared_slots;
    g.prepared_bytes = client.prepared_bytes;
    g.open_puts = client.open_puts;
    g.traffic = client.reported;
    g.attached_for = now - client.since;
    for (auto put = puts_.lower_bound(make_put_id(id, 0));
         put != puts_.end() && owner_of(put->first) == id; ++put)
      g.oldest_put_age = std::max(g.oldest_put_age, now - put->second.started);
    if (client.dead) continue;
    const segment::ReportGauges told = segment::load_gauges(client.channel.report());
    g.attaches = told.attaches;
    g.open_read_plans = told.open_read_plans;
    g.open_handles = told.open_handles;
    g.oldest_read_plan_age = age_of(told.oldest_read_plan, now);
    g.report_age = age_of(told.published, now);
    g.pinned_cells = client.pinned_cells;
    g.pinned_bytes = client.pinned_bytes;
    g.over_pin_budget = g.pinned_bytes > cap;
  }
  return all;
}

}  // namespace orlop::protocol
