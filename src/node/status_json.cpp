// SPDX-License-Identifier: Apache-2.0
#include "node/status_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "node/status_traffic.h"
#include "node/version.h"
#include "orlop/outcome.h"
#include "segment/control_area.h"

namespace orlop::node {
namespace {

using Json = nlohmann::ordered_json;

double seconds(MonoNs ns) {
  return static_cast<double>(ns) / static_cast<double>(kNsPerSecond);
}
MonoNs since(MonoNs now, MonoNs then) {
  return now > then ? now - then : 0;
}

Json memory_json(const runtime::NodeSnapshot& s, const ProcessMemory& memory) {
  Json slots = Json::object();
  for (int i = 0; i < segment::kSlotStateCount; ++i) {
    slots[slot_state_name(i)] = s.gauges.slots_by_state[i];
  }
  Json placement = Json::object();
  for (const auto& [node, bytes] : s.placement) placement[std::to_string(node)] = bytes;
  return {{"value_bytes", s.value_bytes},
          {"value_resident_bytes", s.value_resident_bytes},
          {"slab_bytes", s.slab_bytes},
          {"slabs", s.gauges.slabs},
          {"common_slabs", s.gauges.common_slabs},
          {"readable_bytes", s.gauges.resident_bytes},
          {"prepared_bytes", s.gauges.prepared_bytes},
          {"control_resident_bytes", s.control_resident_bytes},
          {"server_private_bytes", memory.server_bytes},
          {"keeper_private_bytes", memory.keeper_bytes},
          {"touched_bytes", s.touched_bytes},
          {"huge_bytes", s.huge_bytes},
          {"bytes_by_node", placement},
          {"pin_cap_bytes", s.gauges.pin_cap_bytes},
          {"slots", slots},
          {"slots_total", s.gauges.total_slots},
          {"doomed_slots", s.gauges.doomed_slots},
          {"pinned_groups", s.gauges.pinned_groups},
          {"index_entries", s.gauges.index_entries},
          {"index_buckets", s.gauges.index_buckets}};
}

Json client_json(const runtime::ClientInfo& client) {
  const protocol::ClientGauges& g = client.gauges;
  Json out = {{"client", g.client.value},
              {"name", g.name},
              {"pid", client.pid},
              {"state", g.dead ? (g.held_by_fork ? "held_by_fork" : "dead")
                               : (client.connected ? "attached" : "lost")},
              {"pinned_pages", g.pinned_cells},
              {"pinned_bytes", g.pinned_bytes},
              {"prepared_slots", g.prepared_slots},
              {"prepared_bytes", g.prepared_bytes},
              {"open_puts", g.open_puts},
              {"oldest_put_seconds", seconds(g.oldest_put_age)},
              {"over_pin_budget", g.over_pin_budget},
              {"channel_bytes", client.channel_bytes}};
  add_client_traffic(out, g);
  return out;
}

Json namespace_json(const runtime::NamespaceInfo& ns, MonoNs now) {
  // The descriptor is JSON already; a text that is none is shown as it is.
  Json descriptor = Json::parse(ns.text, nullptr, false);
  if (descriptor.is_discarded()) descriptor = ns.text;
  Json out = {{"row", ns.row.value},
              {"index", ns.index.value},
              {"value_len", ns.value_len},
              {"slots", ns.slots},
              {"descriptor", descriptor}};
  add_namespace_traffic(out, ns, now);
  return out;
}

Json counters_json(const runtime::NodeSnapshot& s) {
  const protocol::NodeCounters& c = s.counters;
  Json outcomes = Json::object();
  for (int i = 0; i < kOutcomeCount; ++i) {
    outcomes[std::string(to_string(static_cast<Outcome>(i)))] = c.outcomes[i];
  }
  Json requests = Json::object();
  for (std::size_t i = 1; i < runtime::kRequestCodes; ++i) {
    requests[std::string(runtime::to_string(static_cast<protocol::RequestCode>(i)))] =
        s.loop.requests[i];
  }
  Json refused = Json::object();
  for (std::size_t i = 1; i < runtime::kErrorCodes; ++i) {
    if (s.loop.refused[i] == 0) continue;
    refused[std::string(to_string(static_cast<ErrorCode>(i)))] = s.loop.refused[i];
  }
  return {{"put_starts", c.put_starts},
          {"keys_offered", c.keys_offered},
          {"outcomes", outcomes},
          {"commits", c.commits},
          {"commit_bytes", c.commit_bytes},
          {"aborts", c.aborts},
          {"groups_selected", c.groups_selected},
          {"groups_freed", c.groups_freed},
          {"groups_restored", c.groups_restored},
          {"groups_obsolete", c.groups_obsolete},
          {"slots_evicted", c.slots_evicted},
          {"bytes_evicted", c.bytes_evicted},
          {"scans", c.scans},
          {"cells_scanned", c.cells_scanned},
          {"touches", c.touches},
          {"touches_lost", c.touches_lost},
          {"removed_slots", c.removed_slots},
          {"flushed_slots", c.flushed_slots},
          {"flushes", c.flushes},
          {"mismatch_reports", c.mismatch_reports},
          {"mismatches_confirmed", c.mismatches_confirmed},
          {"false_mismatches", c.false_mismatches},
          {"clients_attached", c.clients_attached},
          {"clients_resumed", c.clients_resumed},
          {"clients_died", c.clients_died},
          {"clients_detached", c.clients_detached},
          {"prepared_reclaimed", c.prepared_reclaimed},
          {"space_waits", c.space_waits},
          {"requests", requests},
          {"refused", refused},
          {"malformed", s.loop.malformed}};
}

Json upgrade_json(const protocol::UpgradeFrame& upgrade) {
  return {{"outcome", std::string(to_string(upgrade.outcome))},
          {"from", upgrade.from},
          {"to", upgrade.to},
          {"reason", upgrade.reason},
          {"succeeded", upgrade.succeeded},
          {"rolled_back", upgrade.rolled_back},
          {"refused", upgrade.refused}};
}

Json recovery_json(const runtime::NodeSnapshot& s) {
  return {{"cold", s.cold},
          {"seconds", seconds(s.recovery_ns)},
          {"slots_walked", s.recovery.slots_walked},
          {"groups_kept", s.recovery.groups_kept},
          {"slots_kept", s.recovery.slots_kept},
          {"slots_doomed", s.recovery.slots_doomed},
          {"prepared_kept", s.recovery.prepared_kept},
          {"prepared_freed", s.recovery.prepared_freed},
          {"retiring_restored", s.recovery.retiring_restored}};
}

}  // namespace

const char* slot_state_name(int state) {
  switch (static_cast<segment::SlotState>(state)) {
    case segment::SlotState::kFree:
      return "free";
    case segment::SlotState::kPrepared:
      return "prepared";
    case segment::SlotState::kLocalReady:
      return "local_ready";
    case segment::SlotState::kCommitted:
      return "committed";
    case segment::SlotState::kRetiring:
      return "retiring";
  }
  return "unknown";
}

std::string status_json(const runtime::NodeSnapshot& s, const ProcessMemory& memory,
                        const std::vector<std::pair<std::string, std::string>>& configuration) {
  Json clients = Json::array();
  for (const runtime::ClientInfo& client : s.clients) clients.push_back(client_json(client));
  Json namespaces = Json::array();
  for (const runtime::NamespaceInfo& ns : s.namespaces)
    namespaces.push_back(namespace_json(ns, s.taken));
  std::uint64_t pinned = 0;
  MonoNs oldest_read = 0, oldest_put = 0;
  for (const runtime::ClientInfo& client : s.clients) {
    pinned += client.gauges.pinned_bytes;
    oldest_read = std::max(oldest_read, client.gauges.oldest_read_plan_age);
    oldest_put = std::max(oldest_put, client.gauges.oldest_put_age);
  }
  Json values = Json::object();
  for (const auto& [key, value] : configuration) values[key] = value;
  const Json out = {{"version", kVersion},
                    {"abi", segment::kAbiVersion},
                    {"segment_id", std::to_string(s.segment.value)},
                    {"incarnation", std::to_string(s.incarnation.value)},
                    {"state", s.stopping ? "stopping" : (s.gauges.draining ? "draining" : "ready")},
                    {"uptime_seconds", seconds(since(s.taken, s.keeper_started))},
                    {"server_uptime_seconds", seconds(since(s.taken, s.server_started))},
                    {"restarts", s.restarts},
                    {"last_end", s.last_end},
                    {"last_upgrade", upgrade_json(s.upgrade)},
                    {"keeper_pid", s.keeper_pid},
                    {"server_pid", s.server_pid},
                    {"memory", memory_json(s, memory)},
                    {"open_puts", s.gauges.open_puts},
                    {"waiting_puts", s.gauges.waiting_puts},
                    {"flush_pending", s.gauges.flush_pending},
                    {"pinned_bytes", pinned},
                    {"oldest_read_plan_seconds", seconds(oldest_read)},
                    {"oldest_put_seconds", seconds(oldest_put)},
                    {"traffic", traffic_json(s)},
                    {"attached", s.attached},
                    {"known_clients", s.known},
                    {"clients", clients},
                    {"namespaces", namespaces},
                    {"counters", counters_json(s)},
                    {"step_latency", latency_json(s.loop.steps)},
                    {"recovery", recovery_json(s)},
                    {"configuration", values}};
  // Names come from clients: bytes that are no UTF-8 are replaced, never an exception.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace orlop::node
