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
#include "segment/key_index.h"

namespace orlop::protocol {

class InFlightMap {
 public:
  explicit InFlightMap(segment::ControlArea area) : area_(area), cells_(kMinCells) {}

  // The slot that the newest writer of this identity has Prepared; slot 0 = nobody writes it.
  SlotId find(const KeyId& key, NamespaceIndex ns) const {
    const std::size_t at = locate(hash_of(key, ns), key, ns);
    return at == kNowhere ? SlotId{} : SlotId{cells_[at].slot};
  }
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

  static std::uint32_t hash_of(const KeyId& key, NamespaceIndex ns) {
    const segment::IndexHash hash = segment::index_hash(key, ns);
    return hash.tag ^ (hash.bucket * 0x9E3779B1u);
  }
  std::size_t locate(std::uint32_t hash, const KeyId& key, NamespaceIndex ns) const {
    const std::size_t mask = cells_.size() - 1;
    for (std::size_t at = hash & mask; cells_[at].slot != 0; at = (at + 1) & mask) {
      if (cells_[at].hash == hash && area_.slot(SlotId{cells_[at].slot}).has_identity(key, ns))
        return at;
    }
    return kNowhere;
  }
  void place(Cell cell);
  void grow();

  segment::ControlArea area_;
  std::vector<Cell> cells_;  // at most half full
  std::size_t used_ = 0;
};

}  // namespace orlop::protocol
