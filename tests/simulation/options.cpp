// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/bytes.h"
#include "base/rng.h"

namespace orlop::simulation {
namespace {

// Most runs leave most faults out: a fault that is always there hides what happens without it.
std::uint32_t sometimes(Rng& rng, double probability, std::uint32_t most) {
  return rng.chance(probability) ? static_cast<std::uint32_t>(rng.between(1, most)) : 0;
}

template <class T>
T one_of(Rng& rng, std::initializer_list<T> values) {
  return *std::next(values.begin(), static_cast<std::ptrdiff_t>(rng.uniform(values.size())));
}

void choose_memory(Rng& rng, Options& o) {
  o.max_value_len = 16 * kKiB;
  // From eight pages of the largest kind to more than all keys need.
  o.capacity = std::uint64_t{128 * kKiB} << rng.uniform(7);
  const auto of_family = one_of<std::uint32_t>(rng, {4096, 5000, 8192});
  std::fill(std::begin(o.value_len), std::end(o.value_len), of_family);
  o.value_len[o.ranks] = one_of<std::uint32_t>(rng, {1, 4096, 5000, 8192, 12288, 16384});
  o.keys = static_cast<std::uint32_t>(rng.between(24, 120));
  o.chain_length = static_cast<std::uint32_t>(rng.between(4, 12));
  o.channel.ledger_cells = rng.chance(0.15) ? 64 : 512;
  o.channel.touch_cells = rng.chance(0.5) ? 64 : 1024;
  o.channel.arena_bytes = 64 * kKiB;
  o.channel.plan_bytes = 64 * kKiB;
  if (!rng.chance(0.15)) return;
  // Room for more requests than a ring has cells.
  o.most_operations = 300;
  o.channel.arena_bytes = kMiB;
}

void choose_node(Rng& rng, protocol::NodeConfig& node) {
  node.min_evict_groups = static_cast<std::uint32_t>(rng.between(1, 8));
  node.flush_slice_slots = static_cast<std::uint32_t>(rng.between(4, 64));
  node.index_slice_buckets = static_cast<std::uint32_t>(rng.between(1, 8));
  node.writer_key_hold = rng.chance(0.5) ? 50 * kNsPerMs : 10 * kNsPerSecond;
}

// Values that are allowed and that nobody would choose.
void choose_odd_knobs(Rng& rng, Options& o) {
  protocol::NodeConfig& node = o.node;
  const auto odd = [&rng] { return rng.chance(0.2); };
  if (odd()) node.reserve_bytes = one_of<std::uint64_t>(rng, {1, kPageBytes, o.capacity / 8});
  if (odd()) node.prepared_cap_bytes = one_of(rng, {o.max_value_len, o.capacity});
  if (odd()) node.max_pinned_bytes = one_of<std::uint64_t>(rng, {1, kPageBytes, o.capacity});
  if (odd()) node.max_space_wait = one_of<MonoNs>(rng, {0, 1, kNsPerSecond});
  if (odd()) node.writer_key_hold = one_of<MonoNs>(rng, {0, 1, 3'600 * kNsPerSecond});
  if (odd()) node.flush_slice_slots = one_of<std::uint32_t>(rng, {1, 1'000'000});
  if (odd()) node.index_slice_buckets = one_of<std::uint32_t>(rng, {1, 1'000'000});
  if (odd()) node.min_evict_groups = one_of<std::uint32_t>(rng, {1, 65'535});
}

void choose_workload(Rng& rng, Options& o) {
  o.workload = static_cast<Workload>(rng.uniform(kWorkloads));
  if (o.workload == Workload::kAbortHappy) o.abort = 250;
  if (o.workload == Workload::kPreemption) o.preempted = 30;
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
  o.long_stall = sometimes(rng, 0.2, 10);
  o.drain = sometimes(rng, 0.25, 8);
  o.older_abi = sometimes(rng, 0.2, 500);
  o.doubled = sometimes(rng, 0.3, 200);
  o.store = rng.chance(0.5);
  o.keeper_killed = sometimes(rng, 0.3, 8);
  o.damaged = sometimes(rng, 0.3, 400);
  o.doorbell_delay = one_of<MonoNs>(rng, {0, 100 * kNsPerUs, 20 * kNsPerMs});
}

}  // namespace

std::string_view to_string(Workload workload) {
  constexpr std::string_view kNames[] = {"mixed",         "conversation", "scan",
                                         "shared_prefix", "abort_happy",  "preemption"};
  static_assert(std::size(kNames) == kWorkloads);
  return kNames[static_cast<std::size_t>(workload)];
}

Options Options::from_seed(std::uint64_t seed) {
  Rng rng(seed);
  Options o;
  o.seed = seed;
  o.steps = 4'000;
  o.clients = static_cast<std::uint32_t>(rng.between(1, 4));
  o.ranks = static_cast<std::uint32_t>(rng.between(1, kMostRanks));
  choose_memory(rng, o);
  choose_node(rng, o.node);
  choose_odd_knobs(rng, o);
  choose_workload(rng, o);
  choose_faults(rng, o);
  return o;
}

std::string Options::text() const {
  std::ostringstream out;
  out << "seed " << seed << ": steps " << steps << ", clients " << clients << ", ranks " << ranks
      << ", workload " << to_string(workload) << ", keys " << keys << " in chains of "
      << chain_length << ", capacity " << capacity << ", value_len " << value_len[0] << '/'
      << value_len[ranks] << ", ledger_cells " << channel.ledger_cells << ", touch_cells "
      << channel.touch_cells << ", operations " << most_operations << "\n  node: policy "
      << node.policy << ", reserve " << node.reserve_bytes << ", prepared cap "
      << node.prepared_cap_bytes << ", max pinned " << node.max_pinned_bytes << ", space wait us "
      << node.max_space_wait / kNsPerUs << ", writer hold ms " << node.writer_key_hold / kNsPerMs
      << ", flush slice " << node.flush_slice_slots << ", index slice " << node.index_slice_buckets
      << ", min evict groups " << node.min_evict_groups << "\n  per mille: server killed "
      << server_killed << " paused " << server_paused << ", client killed " << client_killed
      << " paused " << client_paused << " hangs up " << client_hangs_up << " detaches "
      << client_detaches << " forks " << client_forks << ", keeper killed " << keeper_killed
      << (store ? " (memory kept)" : " (memory lost)") << ", damaged " << damaged
      << ", socket lost " << socket_lost << ", keeper slow " << keeper_slow << " refuses "
      << keeper_refuses << ", nested " << nested << ", abandoned " << request_abandoned
      << ", flush " << flush << ", remove " << remove << ", false report " << false_report
      << ", corrupted " << corrupted << ", copy fails " << copy_fails << ", long pause "
      << long_pause << ", stall " << long_stall << ", drain " << drain << ", older abi "
      << older_abi << ", doubled " << doubled << ", abort " << abort << ", preempted " << preempted
      << "; doorbell delay us " << doorbell_delay / kNsPerUs;
  return out.str();
}

}  // namespace orlop::simulation
