// SPDX-License-Identifier: Apache-2.0
// How large a node `orlop replay --capacity-pages N` needs, so that exactly N pages stay resident
// between requests: the largest puts fit into free slots kept *beside* the N. Pure.
#pragma once

#include <cstdint>

#include "orlop/error.h"

namespace orlop::cli {

struct ReplayMemory {
  std::uint64_t capacity = 0;       // whole slabs
  std::uint64_t slots = 0;          // of the replay's one size class
  std::uint64_t reserve_bytes = 0;  // (slots - capacity_pages) slots

  constexpr bool operator==(const ReplayMemory&) const = default;
};

// free_pages: of the largest puts that are under way at once. value_bytes is also the node's
// max_value_len. All > 0. Errors: kInvalidArgument (no such node: the numbers are named).
Result<ReplayMemory> replay_memory(std::uint64_t capacity_pages, std::uint64_t free_pages,
                                   std::uint64_t value_bytes);

}  // namespace orlop::cli
