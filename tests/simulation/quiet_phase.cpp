// SPDX-License-Identifier: Apache-2.0
#include "quiet_phase.h"

#include <algorithm>
#include <string>
#include <vector>

#include "node_oracle.h"
#include "sim_client.h"
#include "sim_keeper.h"

namespace orlop::simulation {

namespace {
constexpr int kMostSteps = 20'000;
}

void QuietPhase::run() {
  world_.calm_down();
  for (const auto& client : world_.clients) client->spare();
  if (!until("clients come to rest", [this] { return all_idle(); })) return;
  if (!until("counters return to zero while clients stay attached",
             [this] { return all_idle() && counters_are_zero(); }))
    return;
  books_balance(world_.clients.size());
  if (world_.options.drain != 0 || world_.options.damaged != 0) {
    world_.clients.front()->begin_drain_end();
    if (!until("a drain ends", [this] { return all_idle(); })) return;
  }
  put_into_every_namespace();
  if (world_.verdict.failed()) return;
  misses_have_causes();
  if (world_.verdict.failed()) return;
  pins_are_capped(world_.options.namespaces() + (world_.options.ranks < 2 ? 0 : 1));
  if (world_.verdict.failed()) return;
  everybody_leaves();
}

bool QuietPhase::until(const char* what, const std::function<bool()>& done) {
  for (int step = 0; step < kMostSteps && !world_.verdict.failed(); ++step) {
    if (done()) return true;
    world_.step();
    // What waits for a deadline (spaced scans, keys held by writers) should not wait for steps.
    if (step % 16 == 0) world_.now += world_.rng.uniform(20 * kNsPerMs);
  }
  std::string open;
  for (const auto& client : world_.clients) open += "; " + client->what_is_open();
  if (protocol::NodeMachine* node =
          world_.keeper->server() ? world_.keeper->server()->idle_node() : nullptr) {
    const protocol::NodeGauges gauges = node->gauges(world_.now);
    open += "; node: prepared " + std::to_string(gauges.prepared_bytes) + ", open puts " +
            std::to_string(gauges.open_puts) + ", pinned groups " +
            std::to_string(gauges.pinned_groups) + ", waiting " +
            std::to_string(gauges.waiting_puts) + ", doomed " + std::to_string(gauges.doomed_slots);
  }
  world_.verdict.broken(Oracle::kLiveness, std::string("never: ") + what + open);
  return false;
}

bool QuietPhase::all_idle() const {
  return world_.keeper->serving() && world_.keeper->server()->idle() &&
         std::all_of(world_.clients.begin(), world_.clients.end(),
                     [](const auto& client) { return client->idle(); });
}

bool QuietPhase::counters_are_zero() {
  const protocol::NodeMachine* node = world_.keeper->server()->idle_node();
  if (node == nullptr) return false;
  const protocol::NodeGauges gauges = node->gauges(world_.now);
  return gauges.slots_by_state[static_cast<int>(segment::SlotState::kPrepared)] == 0 &&
         gauges.slots_by_state[static_cast<int>(segment::SlotState::kLocalReady)] == 0 &&
         gauges.prepared_bytes == 0 && gauges.pinned_groups == 0 && gauges.doomed_slots == 0 &&
         gauges.open_puts == 0 && gauges.waiting_puts == 0 && !gauges.flush_pending;
}

void QuietPhase::books_balance(std::size_t clients) {
  protocol::NodeMachine* node = world_.keeper->server()->idle_node();
  world_.now += kNsPerSecond;  // what it was asked for a moment ago it does not count again
  node->read_clients(world_.now);
  const std::vector<protocol::ClientGauges> known = node->clients(world_.now);
  if (known.size() != clients) {
    std::string who;
    for (const protocol::ClientGauges& client : known)
      who += " " + std::to_string(client.client.value) + (client.dead ? " dead" : "") +
             (client.held_by_fork ? " held by a fork" : "") + (client.lost ? " lost" : "");
    world_.verdict.broken(Oracle::kGauges, "the node knows " + std::to_string(known.size()) +
                                               " clients, there are " + std::to_string(clients) +
                                               ":" + who);
  }
  for (const protocol::ClientGauges& client : known)
    world_.verdict.require(Oracle::kGauges,
                           client.pinned_cells == 0 && client.pinned_bytes == 0 &&
                               client.prepared_slots == 0 && client.prepared_bytes == 0 &&
                               client.open_puts == 0 && !client.dead && !client.lost,
                           "a client at rest pins or prepares something");
  check_node(world_);
}

// Liveness: memory that nobody uses can be had, in every size class.
void QuietPhase::put_into_every_namespace() {
  SimClient& client = *world_.clients.front();
  for (std::uint32_t ns = 0; ns < world_.options.namespaces() && !world_.verdict.failed(); ++ns) {
    client.begin_last_put(ns);
    const bool over = until("the last put is over", [&] { return client.idle(); });
    if (over && !client.last_put_stored())
      world_.verdict.broken(
          Oracle::kLiveness,
          "an idle node does not store a new page of namespace " + std::to_string(ns));
  }
}

// The page that only rank 1 has, asked for by rank 0; then the same after rank 1 removed it.
void QuietPhase::misses_have_causes() {
  using protocol::MissCause;
  if (world_.options.ranks < 2) return;
  SimClient& client = *world_.clients.front();
  constexpr std::uint32_t kRank0 = 0, kRank1 = 1;
  // One more after those of every namespace.
  const std::uint32_t put_of_rank_1 = world_.options.namespaces() + 1;
  client.begin_last_put(kRank1);
  if (!until("the put of rank 1 is over", [&] { return client.idle(); })) return;
  const auto count = [&](std::uint32_t ns, MissCause cause) {
    protocol::NodeMachine* node = world_.keeper->server()->idle_node();
    node->read_clients(world_.now);
    return node->namespaces()
        .at(client.row_of(ns).value)
        .traffic.missed[static_cast<std::size_t>(cause)];
  };
  const auto missed = [&](std::uint32_t ns, MissCause cause) {
    const std::uint64_t before = count(ns, cause);
    client.tell_missed(ns, put_of_rank_1);
    if (count(ns, cause) == before + 1) return;
    world_.verdict.broken(Oracle::kCauses, "a miss in rank " + std::to_string(ns) +
                                               " is not counted as " +
                                               std::string(to_string(cause)));
  };
  client.spoil_missed();
  count(kRank0, MissCause::kNeverWritten);  // what it wrote is drained, whatever it is
  missed(kRank0, MissCause::kOtherNamespace);
  client.begin_last_remove(kRank1, put_of_rank_1);
  if (!until("the last remove is over", [&] { return all_idle(); })) return;
  missed(kRank1, MissCause::kRemoved);
  missed(kRank0, MissCause::kNeverWritten);
}

void QuietPhase::everybody_leaves() {
  for (const auto& client : world_.clients) client->leave();
  const bool left = until("everybody leaves", [this] {
    return std::all_of(world_.clients.begin(), world_.clients.end(),
                       [](const auto& client) { return client->gone(); });
  });
  if (!left) return;
  until("the keeper holds no channel", [this] {
    return world_.keeper->held() == 0 && world_.keeper->serving() &&
           world_.keeper->server()->idle();
  });
  if (!world_.verdict.failed()) books_balance(0);
}

}  // namespace orlop::simulation
