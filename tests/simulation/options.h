// SPDX-License-Identifier: Apache-2.0
// Everything a run is made of, derived from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/node/node_machine.h"
#include "segment/channel.h"

namespace orlop::simulation {

// Ranks of one family, and a namespace of another family and another size class.
inline constexpr std::uint32_t kMostRanks = 4;
inline constexpr std::uint32_t kMostNamespaces = kMostRanks + 1;

// What clients do. Each does the rest now and then.
enum class Workload : std::uint8_t {
  kMixed,
  kConversation,  // a chain that grows, read from its start each time
  kScan,          // every page once, in order
  kSharedPrefix,  // everybody the same chain
  kAbortHappy,    // puts that are given up
  kPreemption,    // everything let go at once, then asked for again
};
inline constexpr std::uint32_t kWorkloads = 6;
std::string_view to_string(Workload workload);

// Chances are per mille of one step of the actor they concern.
struct Options {
  std::uint64_t seed = 0;
  std::uint32_t steps = 0;  // of the scheduler, before the quiet phase
  std::uint32_t clients = 0;
  std::uint32_t ranks = 1;  // namespaces 0..ranks-1 are one family; one more is of another
  Workload workload = Workload::kMixed;
  std::uint32_t keys = 0;          // per family: few, so that everything collides
  std::uint32_t chain_length = 0;  // keys c*length .. c*length + length - 1 are one conversation
  std::uint64_t capacity = 0;      // bytes of the value area
  std::uint64_t max_value_len = 0;
  std::uint32_t value_len[kMostNamespaces] = {};
  std::uint32_t most_operations = 24;  // of a client, at once; more than a ring has cells: full
  segment::ChannelSizes channel;
  protocol::NodeConfig node;

  std::uint32_t server_killed = 0;  // also between two stores of its step
  std::uint32_t server_paused = 0;
  std::uint32_t client_killed = 0;  // also between two stores of its step
  std::uint32_t client_paused = 0;
  std::uint32_t client_hangs_up = 0;
  std::uint32_t client_detaches = 0;
  std::uint32_t client_forks = 0;
  std::uint32_t socket_lost = 0;    // the server closes it
  std::uint32_t keeper_killed = 0;  // its server dies with it
  bool store = false;               // a service manager keeps the memory for the next keeper
  std::uint32_t damaged = 0;        // a dying server leaves a damaged header or damaged rows
  std::uint32_t keeper_slow = 0;    // a frame to or from the keeper takes long
  std::uint32_t keeper_refuses = 0;
  std::uint32_t nested = 0;  // others run between two accesses of a step
  std::uint32_t request_abandoned = 0;
  std::uint32_t flush = 0;
  std::uint32_t remove = 0;
  std::uint32_t false_report = 0;
  std::uint32_t corrupted = 0;  // a reader scribbles over a value and reports it
  std::uint32_t copy_fails = 0;
  std::uint32_t long_pause = 0;  // time jumps over the writer's hold of its key
  std::uint32_t long_stall = 0;  // time stands still
  std::uint32_t drain = 0;       // a client begins or ends it
  std::uint32_t older_abi = 0;   // a client of another version attaches
  std::uint32_t doubled = 0;     // a commit or abort is sent again: at once, later, by a stranger
  std::uint32_t abort = 4;
  std::uint32_t preempted = 0;
  MonoNs doorbell_delay = 0;  // at most; each doorbell has its own, so they overtake each other

  std::uint32_t namespaces() const { return ranks + 1; }
  bool same_family(std::uint32_t a, std::uint32_t b) const { return (a < ranks) == (b < ranks); }

  static Options from_seed(std::uint64_t seed);
  std::string text() const;
};

}  // namespace orlop::simulation
