// SPDX-License-Identifier: Apache-2.0
// A tournament tree over u32 values by position: the greatest value, and the first position whose
// value is at least x, in O(log n). Grows when a position beyond its size is set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace orlop::segment {

class MaxTree {
 public:
  std::uint32_t max() const { return nodes_.empty() ? 0 : nodes_[1]; }

  void set(std::uint32_t position, std::uint32_t value) {
    if (position >= leaves_) grow(position + 1);
    std::uint32_t node = leaves_ + position;
    nodes_[node] = value;
    for (node /= 2; node > 0; node /= 2) {
      const std::uint32_t greatest = std::max(nodes_[2 * node], nodes_[2 * node + 1]);
      if (nodes_[node] == greatest) break;
      nodes_[node] = greatest;
    }
  }

  // Requires 1 <= value <= max().
  std::uint32_t first_at_least(std::uint32_t value) const {
    DCHECK(value > 0 && value <= max());
    std::uint32_t node = 1;
    while (node < leaves_) node = nodes_[2 * node] >= value ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

 private:
  void grow(std::uint32_t positions) {
    const std::uint32_t leaves = std::bit_ceil(positions);
    std::vector<std::uint32_t> nodes(std::size_t{2} * leaves, 0);
    for (std::uint32_t i = 0; i < leaves_; ++i) nodes[leaves + i] = nodes_[leaves_ + i];
    for (std::uint32_t i = leaves - 1; i > 0; --i)
      nodes[i] = std::max(nodes[2 * i], nodes[2 * i + 1]);
    nodes_ = std::move(nodes);
    leaves_ = leaves;
  }

  std::uint32_t leaves_ = 0;          // power of two
  std::vector<std::uint32_t> nodes_;  // 1 = root; leaves from leaves_
};

}  // namespace orlop::segment
