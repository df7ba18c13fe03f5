// SPDX-License-Identifier: Apache-2.0
// What the node counts of one namespace since this server's start. A flush changes none of it.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "orlop/outcome.h"
#include "protocol/node/missed_keys.h"

namespace orlop::protocol {

struct NamespaceTraffic {
  std::uint64_t keys_offered = 0;                       // by put_start
  std::array<std::uint64_t, kOutcomeCount> outcomes{};  // of put_start and commit answers
  std::uint64_t evicted_slots = 0;                      // left by eviction
  std::uint64_t touches = 0;                            // pages read, as far as told
  std::array<std::uint64_t, kMissCauseCount> missed{};  // of the sample of missed keys
  MonoNs last_put = 0;                                  // put_start; 0: none
  MonoNs last_hit = 0;                                  // drained touch; 0: none
};

}  // namespace orlop::protocol
