// SPDX-License-Identifier: Apache-2.0
#include "node/metrics.h"

#include "node/metrics_traffic.h"
#include "node/status_json.h"
#include "node/version.h"
#include "orlop/outcome.h"

namespace orlop::node {
namespace {

using prometheus::MetricType;

void add_node(MetricFamilies& f, const runtime::NodeSnapshot& s, const ProcessMemory& memory) {
  f.begin(MetricType::Gauge, "orlop_build_info", "Always 1; the version is a label.");
  f.add({{"version", kVersion}}, 1);
  f.gauge("orlop_uptime_seconds", "Since the keeper started.",
          metric_seconds(s.taken - s.keeper_started));
  f.gauge("orlop_server_uptime_seconds", "Since this server started.",
          metric_seconds(s.taken - s.server_started));
  f.counter("orlop_server_restarts_total", "Servers that ended and were replaced.", s.restarts);
  f.gauge("orlop_recovery_seconds", "Time this server's recovery took.",
          metric_seconds(s.recovery_ns));
  f.begin(MetricType::Gauge, "orlop_process_private_bytes",
          "Private resident memory of the daemon's processes.");
  f.add({{"process", "server"}}, memory.server_bytes);
  f.add({{"process", "keeper"}}, memory.keeper_bytes);
}

void add_memory(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  const protocol::NodeGauges& g = s.gauges;
  f.gauge("orlop_value_bytes", "Size of the value area.", s.value_bytes);
  f.gauge("orlop_value_resident_bytes", "Memory the value area takes now.", s.value_resident_bytes);
  f.gauge("orlop_control_resident_bytes", "Memory the control area takes now.",
          s.control_resident_bytes);
  f.gauge("orlop_huge_bytes", "Value area in proven huge pages, at its creation.", s.huge_bytes);
  f.begin(MetricType::Gauge, "orlop_numa_bytes", "Value area by memory node, at its creation.");
  for (const auto& [node, bytes] : s.placement) f.add({{"node", std::to_string(node)}}, bytes);
  f.begin(MetricType::Gauge, "orlop_slots", "Slots by state; they sum to orlop_slots_assigned.");
  for (int i = 0; i < segment::kSlotStateCount; ++i) {
    f.add({{"state", slot_state_name(i)}}, g.slots_by_state[i]);
  }
  f.gauge("orlop_slots_assigned", "Slots of all slabs that have a size class.", g.total_slots);
  f.gauge("orlop_slabs", "Slabs of the value area.", g.slabs);
  f.gauge("orlop_common_slabs", "Slabs without a size class.", g.common_slabs);
  f.gauge("orlop_readable_bytes", "Memory of readable slots, by slot size.", g.resident_bytes);
  f.gauge("orlop_prepared_bytes", "Memory of slots that are being written; 0 when idle.",
          g.prepared_bytes);
  f.gauge("orlop_doomed_slots", "Slots to be freed as soon as nobody pins them.", g.doomed_slots);
  f.gauge("orlop_pinned_groups", "Groups found pinned by the last scans.", g.pinned_groups);
  f.gauge("orlop_open_puts", "Puts between put_start and the end; 0 when idle.", g.open_puts);
  f.gauge("orlop_draining", "1: new puts are not admitted (`orlop drain`).", g.draining ? 1 : 0);
  f.gauge("orlop_waiting_puts", "Puts that wait for space; 0 when idle.", g.waiting_puts);
  f.gauge("orlop_pin_cap_bytes", "What one client may pin now.", g.pin_cap_bytes);
  f.gauge("orlop_index_entries", "Entries of the key index.", g.index_entries);
  f.gauge("orlop_index_buckets", "Buckets of the key index, 7 entries each.", g.index_buckets);
  f.gauge("orlop_namespaces", "Open namespaces.", g.namespaces);
}

void add_clients(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  f.gauge("orlop_clients_attached", "Clients with a connection.", s.attached);
  f.gauge("orlop_clients_known", "Clients whose channel is held, lost and dead ones included.",
          s.known);
  f.gauge("orlop_handshakes", "Connections that have not attached yet.", s.handshakes);
  using Gauges = protocol::ClientGauges;
  const auto each = [&](const char* name, const char* help, auto value) {
    f.begin(MetricType::Gauge, name, help);
    for (const runtime::ClientInfo& client : s.clients) {
      f.add({{"client", std::to_string(client.gauges.client.value)}, {"name", client.gauges.name}},
            value(client.gauges));
    }
  };
  each("orlop_client_pinned_bytes", "Bytes a client pins, by its ledger.",
       [](const Gauges& g) { return g.pinned_bytes; });
  each("orlop_client_prepared_bytes", "Bytes a client has reserved for puts.",
       [](const Gauges& g) { return g.prepared_bytes; });
  each("orlop_client_oldest_put_seconds", "Age of a client's oldest open put.",
       [](const Gauges& g) { return metric_seconds(g.oldest_put_age); });
  each("orlop_client_held_by_fork", "1: dead, but a forked child lives, so its puts stay.",
       [](const Gauges& g) { return g.held_by_fork ? 1 : 0; });
}

void add_requests(MetricFamilies& f, const runtime::NodeSnapshot& s) {
  f.begin(MetricType::Counter, "orlop_requests_total", "Requests by kind.");
  for (std::size_t i = 1; i < runtime::kRequestCodes; ++i) {
    f.add({{"request", std::string(runtime::to_string(static_cast<protocol::RequestCode>(i)))}},
          s.loop.requests[i]);
  }
  f.begin(MetricType::Counter, "orlop_key_outcomes_total",
          "Answers of put_start and commit, by key and outcome.");
  for (int i = 0; i < kOutcomeCount; ++i) {
    f.add({{"outcome", std::string(to_string(static_cast<Outcome>(i)))}}, s.counters.outcomes[i]);
  }
  f.begin(MetricType::Counter, "orlop_upgrades_total",
          "Upgrades (SIGHUP) since the keeper's start, by outcome.");
  for (const auto& [outcome, count] :
       {std::pair{protocol::UpgradeOutcome::kSucceeded, s.upgrade.succeeded},
        std::pair{protocol::UpgradeOutcome::kRolledBack, s.upgrade.rolled_back},
        std::pair{protocol::UpgradeOutcome::kRefused, s.upgrade.refused}}) {
    f.add({{"outcome", std::string(to_string(outcome))}}, count);
  }
  f.begin(MetricType::Counter, "orlop_refused_total", "Refused attaches and resumes, by reason.");
  for (std::size_t i = 1; i < runtime::kErrorCodes; ++i) {
    f.add({{"reason", std::string(to_string(static_cast<ErrorCode>(i)))}}, s.loop.refused[i]);
  }
  f.counter("orlop_malformed_clients_total",
            "Clients closed for what they wrote into their channel.", s.loop.malformed);
  f.histogram("orlop_step_seconds", "Time a request takes in the server's thread.", s.loop.steps);
  f.counter("orlop_doorbells_total", "Sleeping clients woken.", s.loop.doorbells);
  f.counter("orlop_sleeps_total", "Times the server's thread slept.", s.loop.sleeps);
}

void add_counters(MetricFamilies& f, const protocol::NodeCounters& c) {
  const struct {
    const char* name;
    const char* help;
    std::uint64_t value;
  } rows[] = {
      {"orlop_put_starts_total", "put_start requests decided.", c.put_starts},
      {"orlop_keys_offered_total", "Keys of these.", c.keys_offered},
      {"orlop_commits_total", "put_commit requests.", c.commits},
      {"orlop_commit_bytes_total", "Bytes made readable.", c.commit_bytes},
      {"orlop_aborts_total", "put_abort requests.", c.aborts},
      {"orlop_groups_selected_total", "Groups selected to leave.", c.groups_selected},
      {"orlop_groups_freed_total", "Of these: freed.", c.groups_freed},
      {"orlop_groups_restored_total", "Of these: kept, because pinned.", c.groups_restored},
      {"orlop_groups_obsolete_total", "Of these: gone otherwise.", c.groups_obsolete},
      {"orlop_slots_evicted_total", "Slots freed by eviction.", c.slots_evicted},
      {"orlop_evicted_bytes_total", "Bytes freed by eviction.", c.bytes_evicted},
      {"orlop_scans_total", "Passes over the pin ledgers.", c.scans},
      {"orlop_scanned_cells_total", "Ledger cells read by these.", c.cells_scanned},
      {"orlop_touches_total", "Accesses that clients told.", c.touches},
      {"orlop_touches_lost_total", "Accesses lost to full touch rings.", c.touches_lost},
      {"orlop_removed_slots_total", "Slots doomed by remove.", c.removed_slots},
      {"orlop_flushed_slots_total", "Slots doomed by flush.", c.flushed_slots},
      {"orlop_flushes_total", "Flush requests.", c.flushes},
      {"orlop_mismatch_reports_total", "Reports of wrong bytes.", c.mismatch_reports},
      {"orlop_mismatches_confirmed_total", "Of these: the node found it too.",
       c.mismatches_confirmed},
      {"orlop_false_mismatches_total", "Of these: the bytes are right.", c.false_mismatches},
      {"orlop_client_attaches_total", "Clients that attached.", c.clients_attached},
      {"orlop_client_resumes_total", "Clients that came back.", c.clients_resumed},
      {"orlop_client_deaths_total", "Clients proved dead.", c.clients_died},
      {"orlop_client_detaches_total", "Clients that said goodbye.", c.clients_detached},
      {"orlop_prepared_reclaimed_total", "Reserved slots taken back from the dead and the gone.",
       c.prepared_reclaimed},
      {"orlop_space_waits_total", "Puts that had to wait for space.", c.space_waits},
  };
  for (const auto& row : rows) f.counter(row.name, row.help, row.value);
}

}  // namespace

std::string metrics_text(const runtime::NodeSnapshot& snapshot, const ProcessMemory& memory) {
  MetricFamilies families;
  add_node(families, snapshot, memory);
  add_memory(families, snapshot);
  add_clients(families, snapshot);
  add_client_traffic(families, snapshot);
  add_traffic(families, snapshot);
  add_namespaces(families, snapshot);
  add_requests(families, snapshot);
  add_counters(families, snapshot.counters);
  return families.text();
}

}  // namespace orlop::node
