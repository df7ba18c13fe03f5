// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <sstream>

#include "base/rng.h"

namespace orlop::simulation {
namespace {

// Most runs leave most faults out: a fault that is always there hides what happens without it.
std::uint32_t sometimes(Rng& rng, double probability, std::uint32_t most) {
  return rng.chance(probability) ? static_cast<std::uint32_t>(rng.between(1, most)) : 0;
}

void choose_memory(Rng& rng, Options& o) {
  o.max_value_len = 16 * kKiB;
  o.capacity = std::uint64_t{512 * kKiB} << rng.uniform(3);
  constexpr std::uint32_t kLengths[] = {4096, 5000, 8192, 12288, 16384};
  o.value_len[0] = kLengths[rng.uniform(3)];
  o.value_len[1] = o.value_len[0];  // two ranks of one family hold pages of one size
  o.value_len[2] = kLengths[rng.uniform(5)];
  o.keys = static_cast<std::uint32_t>(rng.between(24, 120));
  o.chain_length = static_cast<std::uint32_t>(rng.between(4, 12));
  o.channel.ledger_cells = rng.chance(0.15) ? 64 : 512;
  o.channel.touch_cells = 64;
  o.channel.arena_bytes = 64 * kKiB;
  o.channel.plan_bytes = 64 * kKiB;
}

void choose_node(Rng& rng, protocol::NodeConfig& node) {
  node.min_evict_groups = static_cast<std::uint32_t>(rng.between(1, 8));
  node.flush_slice_slots = static_cast<std::uint32_t>(rng.between(4, 64));
  node.index_slice_buckets = static_cast<std::uint32_t>(rng.between(1, 8));
  node.writer_key_hold = rng.chance(0.5) ? 50 * kNsPerMs : 10 * kNsPerSecond;
}

void choose_faults(Rng& rng, Options& o) {
  o.server_killed = sometimes(rng, 0.7, 25);
  o.server_paused = sometimes(rng, 0.3, 10);
  o.client_killed = sometimes(rng, 0.5, 8);
  o.client_paused = sometimes(rng, 0.3, 10);
  o.client_hangs_up = sometimes(rng, 0.3, 6);
  o.client_detaches = sometimes(rng, 0.3, 4);
  o.client_forks = sometimes(rng, 0.4, 15);
  o.socket_lost = sometimes(rng, 0.3, 6);
  o.keeper_slow = sometimes(rng, 0.4, 300);
  o.keeper_refuses = sometimes(rng, 0.2, 100);
  o.nested = sometimes(rng, 0.8, 400);
  o.request_abandoned = sometimes(rng, 0.4, 60);
  o.flush = sometimes(rng, 0.4, 12);
  o.remove = sometimes(rng, 0.5, 40);
  o.false_report = sometimes(rng, 0.3, 20);
  o.corrupted = sometimes(rng, 0.3, 10);
  o.copy_fails = sometimes(rng, 0.1, 4);
  o.long_pause = sometimes(rng, 0.3, 10);
  o.drain = sometimes(rng, 0.25, 8);
}

}  // namespace

Options Options::from_seed(std::uint64_t seed) {
  Rng rng(seed);
  Options o;
  o.seed = seed;
  o.steps = 4'000;
  o.clients = static_cast<std::uint32_t>(rng.between(1, 4));
  choose_memory(rng, o);
  choose_node(rng, o.node);
  choose_faults(rng, o);
  return o;
}

std::string Options::text() const {
  std::ostringstream out;
  out << "seed " << seed << ": steps " << steps << ", clients " << clients << ", keys " << keys
      << " in chains of " << chain_length << ", capacity " << capacity << ", value_len "
      << value_len[0] << '/' << value_len[2] << ", ledger_cells " << channel.ledger_cells
      << ", min_evict_groups " << node.min_evict_groups << ", writer_key_hold_ms "
      << node.writer_key_hold / kNsPerMs << "\n  per mille: server killed " << server_killed
      << " paused " << server_paused << ", client killed " << client_killed << " paused "
      << client_paused << " hangs up " << client_hangs_up << " detaches " << client_detaches
      << " forks " << client_forks << ", socket lost " << socket_lost << ", keeper slow "
      << keeper_slow << " refuses " << keeper_refuses << ", nested " << nested << ", abandoned "
      << request_abandoned << ", flush " << flush << ", remove " << remove << ", false report "
      << false_report << ", corrupted " << corrupted << ", copy fails " << copy_fails
      << ", long pause " << long_pause << ", drain " << drain;
  return out.str();
}

}  // namespace orlop::simulation
