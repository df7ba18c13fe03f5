// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/in_flight_map.h"

#include <utility>

namespace orlop::protocol {

void InFlightMap::place(Cell cell) {
  const std::size_t mask = cells_.size() - 1;
  std::size_t at = cell.hash & mask;
  while (cells_[at].slot != 0) at = (at + 1) & mask;
  cells_[at] = cell;
}

void InFlightMap::grow() {
  std::vector<Cell> old = std::exchange(cells_, std::vector<Cell>(cells_.size() * 2));
  for (const Cell& cell : old) {
    if (cell.slot != 0) place(cell);
  }
}

void InFlightMap::set(const KeyId& key, NamespaceIndex ns, SlotId slot) {
  const std::uint32_t hash = hash_of(key, ns);
  const std::size_t at = locate(hash, key, ns);
  if (at != kNowhere) {
    cells_[at].slot = slot.value;
    return;
  }
  if ((used_ + 1) * 2 > cells_.size()) grow();
  place({hash, slot.value});
  ++used_;
}

void InFlightMap::erase(const KeyId& key, NamespaceIndex ns, SlotId slot) {
  const std::size_t mask = cells_.size() - 1;
  std::size_t hole = hash_of(key, ns) & mask;
  while (cells_[hole].slot != slot.value) {
    if (cells_[hole].slot == 0) return;  // a later writer took the key over
    hole = (hole + 1) & mask;
  }
  // Backward shift: no tombstones, so a full day of traffic does not lengthen the probes.
  for (std::size_t at = (hole + 1) & mask; cells_[at].slot != 0; at = (at + 1) & mask) {
    const std::size_t home = cells_[at].hash & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;  // would land before its home
    cells_[hole] = cells_[at];
    hole = at;
  }
  cells_[hole] = Cell{};
  --used_;
}

}  // namespace orlop::protocol
