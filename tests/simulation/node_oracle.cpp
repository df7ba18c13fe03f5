// SPDX-License-Identifier: Apache-2.0
#include "node_oracle.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "sim_keeper.h"
#include "world.h"

namespace orlop::simulation {
namespace {

using segment::SlotState;

// What the slot table holds.
struct Table {
  std::array<std::uint64_t, segment::kSlotStateCount> slots{};
  std::uint64_t readable_bytes = 0, prepared_bytes = 0, doomed = 0, hidden = 0;
  std::map<ClientId, std::uint64_t> prepared_of;  // bytes
};

Table count(const World& world) {
  Table table;
  const segment::ControlArea area = world.segment().area();
  for (std::uint32_t i = 1; i < world.segment().memory.geometry.slot_rows; ++i) {
    const segment::SlotRow& row = area.slot(SlotId{i});
    const segment::SlotWord word = row.load_word();
    if (word.state == SlotState::kFree) continue;
    ++table.slots[static_cast<std::size_t>(word.state)];
    const std::uint64_t pages = (row.load_value_len() + kPageBytes - 1) / kPageBytes;
    const std::uint64_t bytes = std::max<std::uint64_t>(pages, 1) * kPageBytes;
    if (word.readable()) table.readable_bytes += bytes;
    if (word.state == SlotState::kPrepared) {
      table.prepared_bytes += bytes;
      table.prepared_of[owner_of(row.load_put())] += bytes;
    }
    if (word.state != SlotState::kRetiring) continue;
    ++(word.doomed() ? table.doomed : table.hidden);
  }
  return table;
}

void check_gauges(World& world, const Table& table, const protocol::NodeGauges& gauges) {
  Verdict& verdict = world.verdict;
  std::uint64_t used = 0;
  for (std::size_t state = 1; state < table.slots.size(); ++state) {
    used += table.slots[state];
    if (table.slots[state] != gauges.slots_by_state[state])
      verdict.broken(Oracle::kGauges, "the node counts " +
                                          std::to_string(gauges.slots_by_state[state]) +
                                          " slots in state " + std::to_string(state) +
                                          ", the table has " + std::to_string(table.slots[state]));
  }
  verdict.require(Oracle::kGauges, used + gauges.slots_by_state[0] == gauges.total_slots,
                  "slots by state do not sum to all slots");
  verdict.require(Oracle::kGauges, table.readable_bytes == gauges.resident_bytes,
                  "resident bytes are not those of the readable slots");
  verdict.require(Oracle::kGauges, table.prepared_bytes == gauges.prepared_bytes,
                  "prepared bytes are not those of the Prepared slots");
  verdict.require(Oracle::kGauges, table.doomed == gauges.doomed_slots,
                  "doomed slots are not those of the table");
}

// Every victim is freed or restored in the step that chose it: nothing stays on its way out.
void check_victims(World& world, const Table& table, const protocol::NodeMachine& node,
                   const protocol::NodeGauges& gauges) {
  const Policy::Counters& policy = gauges.policy;
  world.verdict.require(Oracle::kS4, table.hidden == 0, "a victim is neither freed nor restored");
  world.verdict.require(Oracle::kS4, policy.pending == 0 && policy.pending_bytes == 0,
                        "the policy still waits for a victim");
  world.verdict.require(Oracle::kS4,
                        policy.selected == policy.freed + policy.restored + policy.obsolete,
                        "selected victims are not freed + restored + obsolete");
  const protocol::NodeCounters& counters = node.counters();
  world.verdict.require(
      Oracle::kS4,
      counters.groups_selected ==
          counters.groups_freed + counters.groups_restored + counters.groups_obsolete,
      "the node's count of victims does not reconcile");
}

void check_caps(World& world, const Table& table, const protocol::NodeGauges& gauges) {
  const protocol::NodeConfig& config = world.options.node;
  const std::uint64_t bytes = world.segment().memory.geometry.value_bytes();
  const std::uint64_t prepared_cap =
      config.prepared_cap_bytes != 0 ? config.prepared_cap_bytes : bytes / 4;
  for (const auto& [client, prepared] : table.prepared_of)
    if (prepared > prepared_cap)
      world.verdict.broken(Oracle::kCap, "client " + std::to_string(client.value) + " has " +
                                             std::to_string(prepared) +
                                             " bytes Prepared, allowed " +
                                             std::to_string(prepared_cap));
  const std::uint64_t pin_cap = config.max_pinned_bytes != 0 ? config.max_pinned_bytes : bytes / 4;
  world.verdict.require(Oracle::kCap, gauges.pin_cap_bytes <= pin_cap,
                        "the cap on pins in force is above the configured one");
  world.verdict.require(Oracle::kCap, table.readable_bytes + table.prepared_bytes <= bytes,
                        "more memory is in use than there is");
}

}  // namespace

void check_node(World& world) {
  const protocol::NodeMachine* node =
      world.keeper->server() ? world.keeper->server()->idle_node() : nullptr;
  if (node == nullptr) return;
  const Unobserved quiet;
  const Table table = count(world);
  const protocol::NodeGauges gauges = node->gauges(world.now);
  check_victims(world, table, *node, gauges);  // first: what it says is said by gauges more vaguely
  check_gauges(world, table, gauges);
  check_caps(world, table, gauges);
  world.segment().slots.check_groups();
  world.segment().slots.check_published();
  world.segment().slots.check_no_duplicates();
  node->validate();
}

}  // namespace orlop::simulation
