// SPDX-License-Identifier: Apache-2.0
// Which keys are being written now: (KeyId, namespace index) -> the Prepared slot of the newest
// writer. Private memory of the node; rebuilt from the slot table at recovery.
//
// Open addressing, 8 bytes a cell; the identity itself is compared in the slot's row, which must
// hold it as long as the entry exists. Never iterated: order of cells is nobody's business.
// Thread: the node's one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "segment/control_area.h"

namespace orlop::protocol {

class InFlightMap {
 public:
  explicit InFlightMap(segment::ControlArea area) : area_(area), cells_(kMinCells) {}

  // The slot that the newest writer of this identity has Prepared; slot 0 = nobody writes it.
  SlotId find(const KeyId& key, NamespaceIndex ns) const;
  // `slot` becomes the newest writer's. Its row holds the identity already.
  void set(const KeyId& key, NamespaceIndex ns, SlotId slot);
  // Removes the entry if it still names this slot (a later writer may have taken the key over).
  void erase(const KeyId& key, NamespaceIndex ns, SlotId slot);
  std::size_t size() const { return used_; }

 private:
  struct Cell {
    std::uint32_t hash = 0;
    std::uint32_t slot = 0;  // 0 = empty
  };
  static constexpr std::size_t kMinCells = 1'024;  // power of two
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  std::size_t locate(std::uint32_t hash, const KeyId& key, NamespaceIndex ns) const;
  void place(Cell cell);
  void grow();

  segment::ControlArea area_;
  std::vector<Cell> cells_;  // at most half full
  std::size_t used_ = 0;
};

}  // namespace orlop::protocol
