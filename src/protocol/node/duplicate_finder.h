// SPDX-License-Identifier: Apache-2.0
// Finds the first repeated key of a batch. Keeps its table between calls, so the usual call
// allocates nothing; forgetting a batch is one counter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace orlop::protocol {

class DuplicateFinder {
 public:
  struct Pair {
    std::uint32_t first, second;  // indices of the equal keys, first < second
  };
  // keys: at most 65,535.
  std::optional<Pair> find(std::span<const KeyId> keys);

 private:
  struct Cell {
    std::uint32_t batch = 0;  // the cell counts only if this is the current batch
    std::uint32_t index = 0;
  };
  std::vector<Cell> cells_;  // power of two, at most half full
  std::uint32_t batch_ = 0;
};

}  // namespace orlop::protocol
