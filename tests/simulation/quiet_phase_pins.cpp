// SPDX-License-Identifier: Apache-2.0
// The last question to a node at rest: does it divide the memory that readers may pin?
#include <algorithm>
#include <string>

#include "base/sometimes.h"
#include "quiet_phase.h"
#include "sim_client.h"
#include "sim_keeper.h"

namespace orlop::simulation {

namespace {
constexpr int kMostTurns = 2'000;
}

// Clients pin what they may and then do nothing, so what the next scan counts is known, and with it
// the cap: as long as all together pin less than half, each may have its maximum, else that half is
// divided.
void QuietPhase::pins_are_capped(std::uint32_t puts_before) {
  SimClient& client = *world_.clients.front();
  client.begin_last_put(0);
  if (!until("the put before the pins is over", [&] { return client.idle(); })) return;
  for (const auto& one : world_.clients) one->pin_all();
  const std::uint64_t scans = world_.keeper->server()->idle_node()->counters().scans;
  client.begin_last_remove(0, puts_before + 1);  // a removed slot is looked for in all ledgers
  client.ring_now();
  // Only the server runs: who runs lets go.
  for (int turn = 0; turn < kMostTurns; ++turn) {
    world_.now += kNsPerMs;
    world_.keeper->step_server();
    const protocol::NodeMachine* node = world_.keeper->server()->idle_node();
    if (node->counters().scans > scans && !node->wants_background()) break;
  }
  cap_is_right();
  until("the last readers let go", [this] { return all_idle(); });
}

void QuietPhase::cap_is_right() {
  std::uint64_t pinned = 0;
  for (const auto& one : world_.clients) pinned += one->pinned_bytes();
  const std::uint64_t bytes = world_.segment().area().geometry().value_bytes();
  const std::uint64_t asked = world_.options.node.max_pinned_bytes;
  const std::uint64_t most = asked != 0 ? asked : bytes / 4;
  const std::uint64_t attached = world_.clients.size();
  const std::uint64_t right = pinned < bytes / 2 ? most : std::min(most, bytes / 2 / attached);
  const std::uint64_t cap = world_.segment().area().header().pin_cap_bytes.load();
  SOMETIMES(right < most, "sim: the pin cap is lowered");
  if (cap != right)
    world_.verdict.broken(Oracle::kCap, "clients pin " + std::to_string(pinned) + " of " +
                                            std::to_string(bytes) + " bytes and each may pin " +
                                            std::to_string(cap) + ", not " + std::to_string(right));
}

}  // namespace orlop::simulation
