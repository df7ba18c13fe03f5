// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/duplicate_finder.h"

#include <algorithm>
#include <bit>

namespace orlop::protocol {

std::optional<DuplicateFinder::Pair> DuplicateFinder::find(std::span<const KeyId> keys) {
  const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(keys.size() * 2, 256));
  if (cells_.size() < wanted) cells_.assign(wanted, Cell{});
  if (++batch_ == 0) {  // the counter wrapped: old cells could look current
    std::fill(cells_.begin(), cells_.end(), Cell{});
    batch_ = 1;
  }
  const std::size_t mask = cells_.size() - 1;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t hash = (keys[i].lo ^ (keys[i].hi << 1)) * 0x9E3779B97F4A7C15ULL;
    std::size_t at = (hash >> 32) & mask;
    for (; cells_[at].batch == batch_; at = (at + 1) & mask) {
      if (keys[cells_[at].index] == keys[i]) return Pair{cells_[at].index, i};
    }
    cells_[at] = {batch_, i};
  }
  return std::nullopt;
}

}  // namespace orlop::protocol
