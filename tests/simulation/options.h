// SPDX-License-Identifier: Apache-2.0
// Everything a run is made of, derived from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/node/node_machine.h"
#include "segment/channel.h"

namespace orlop::simulation {

// Two ranks of one family, and a namespace of another family and another size class.
inline constexpr std::uint32_t kNamespaces = 3;

// Chances are per mille of one step of the actor they concern.
struct Options {
  std::uint64_t seed = 0;
  std::uint32_t steps = 0;  // of the scheduler, before the quiet phase
  std::uint32_t clients = 0;
  std::uint32_t keys = 0;          // per family: few, so that everything collides
  std::uint32_t chain_length = 0;  // keys c*length .. c*length + length - 1 are one conversation
  std::uint64_t capacity = 0;      // bytes of the value area
  std::uint64_t max_value_len = 0;
  std::uint32_t value_len[kNamespaces] = {};
  segment::ChannelSizes channel;
  protocol::NodeConfig node;

  std::uint32_t server_killed = 0;  // also between two stores of its step
  std::uint32_t server_paused = 0;
  std::uint32_t client_killed = 0;  // also between two stores of its step
  std::uint32_t client_paused = 0;
  std::uint32_t client_hangs_up = 0;
  std::uint32_t client_detaches = 0;
  std::uint32_t client_forks = 0;
  std::uint32_t socket_lost = 0;  // the server closes it
  std::uint32_t keeper_slow = 0;  // a frame to or from the keeper takes long
  std::uint32_t keeper_refuses = 0;
  std::uint32_t nested = 0;  // others run between two accesses of a step
  std::uint32_t request_abandoned = 0;
  std::uint32_t flush = 0;
  std::uint32_t remove = 0;
  std::uint32_t false_report = 0;
  std::uint32_t corrupted = 0;  // a reader scribbles over a value and reports it
  std::uint32_t copy_fails = 0;
  std::uint32_t long_pause = 0;  // time jumps over the writer's hold of its key
  std::uint32_t drain = 0;       // a client begins or ends it

  static Options from_seed(std::uint64_t seed);
  std::string text() const;
};

}  // namespace orlop::simulation
