// SPDX-License-Identifier: Apache-2.0
// Damage to the slot table while no server lives. State words are left alone: who holds a pin names
// a generation, and only the word says which one there is.
#include <algorithm>
#include <vector>

#include "base/sometimes.h"
#include "process.h"
#include "slot_oracle.h"

namespace orlop::simulation {

using segment::SlotRow;
using segment::SlotState;

void SlotOracle::damage_rows(Rng& rng) {
  const Unobserved quiet;
  // Only rows that a checksum covers: those that were readable once and may be again.
  std::vector<SlotId> sealed;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const segment::SlotWord word = area_.slot(SlotId{i}).load_word();
    if (word.readable() || (word.state == SlotState::kRetiring && !word.doomed()))
      sealed.push_back(SlotId{i});
  }
  const auto lose_group = [this](SlotId slot) {
    const segment::SlotFields fields = area_.slot(slot).load_fields();
    torn_.insert({fields.put, fields.group.group_number});
    for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
      const SlotRow& row = area_.slot(SlotId{i});
      if (row.load_put() == fields.put &&
          row.load_fields().group.group_number == fields.group.group_number)
        kept_.erase(SlotId{i});
    }
  };
  damage_is_fresh_ = !sealed.empty();
  for (std::uint64_t left = std::min<std::uint64_t>(sealed.size(), rng.between(1, 3)); left > 0;
       --left) {
    const SlotId slot = sealed[rng.uniform(sealed.size())];
    SlotRow& row = area_.slot(slot);
    lose_group(slot);
    corrupt(slot, row.load_word().generation);
    damaged_.insert({slot, row.load_word().generation});
    // One bit of the fields behind the word.
    auto* words = reinterpret_cast<std::uint64_t*>(&row) + 1;
    words[rng.uniform(sizeof(SlotRow) / 8 - 1)] ^= std::uint64_t{1} << rng.uniform(64);
    SOMETIMES(true, "sim: a row is damaged");
  }
}

}  // namespace orlop::simulation
