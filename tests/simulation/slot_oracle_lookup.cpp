// SPDX-License-Identifier: Apache-2.0
// The slot oracle's view of the index: what stays readable is found, and nothing else is in it.
#include <string>
#include <vector>

#include "process.h"
#include "segment/key_index.h"
#include "slot_oracle.h"

namespace orlop::simulation {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;

void SlotOracle::word_changed(SlotId slot, SlotWord before, SlotWord after) {
  if (before.state == SlotState::kRetiring && after.state == SlotState::kCommitted)
    restored(slot, after);
  const bool was = before.state == SlotState::kCommitted;
  const bool is = after.state == SlotState::kCommitted;
  if (was == is || !indexed_) return;
  const SlotRow& row = area_.slot(slot);
  const std::pair page{row.load_key(), row.load_ns()};
  if (is) {
    committed_since_[page] = now_;
  } else {
    committed_since_.erase(page);
  }
}

// Between a server's death and the end of its successor's recovery the index is not promised to
// know what the words say.
void SlotOracle::index_is_built(bool built) {
  indexed_ = built;
  committed_since_.clear();
  if (!built) return;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& row = area_.slot(SlotId{i});
    if (row.load_word().state == SlotState::kCommitted)
      committed_since_[{row.load_key(), row.load_ns()}] = now_;
  }
}

// Eviction gives back all of a group or nothing.
void SlotOracle::restored(SlotId slot, SlotWord word) {
  const segment::SlotFields fields = area_.slot(slot).load_fields();
  std::uint32_t present = 0;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& row = area_.slot(SlotId{i});
    if (row.load_put() != fields.put) continue;
    const SlotWord member = row.load_word();
    const bool here =
        member.readable() || (member.state == SlotState::kRetiring && !member.doomed());
    if (here && row.load_fields().group.group_number == fields.group.group_number) ++present;
  }
  if (present != fields.group.length)
    verdict_.broken(Oracle::kA1, name_of(slot, word.generation) + " is given back, but only " +
                                     std::to_string(present) + " of its group's " +
                                     std::to_string(fields.group.length) + " pages are here");
}

void SlotOracle::not_found(const KeyId& key, NamespaceIndex index, Sequence begun,
                           std::uint32_t switches) {
  const auto found = committed_since_.find({key, index});
  if (switches > kLookUpSwitches || found == committed_since_.end() || found->second > begun)
    return;
  verdict_.broken(Oracle::kV1, "a look-up missed a page that was Committed all the time");
}

void SlotOracle::check_index() {
  const Unobserved quiet;
  if (!formatted_) return;
  const segment::IndexWord word = area_.index_word();
  const segment::IndexBucket* buckets = area_.index_place(word.place);
  std::vector<std::uint8_t> entries(memory_.geometry.slot_rows, 0);
  for (std::uint64_t b = 0; b < std::uint64_t{1} << word.log2; ++b) {
    for (const auto& cell : buckets[b].entry) {
      const SlotId slot{static_cast<std::uint32_t>(cell.load(std::memory_order_relaxed))};
      if (!slot) continue;
      if (!area_.valid_slot(slot) || !area_.slot(slot).load_word().readable())
        return verdict_.broken(Oracle::kV1, "the index names slot " + std::to_string(slot.value) +
                                                ", which is not readable");
      if (++entries[slot.value] != 1)
        return verdict_.broken(Oracle::kV1,
                               "the index names slot " + std::to_string(slot.value) + " twice");
    }
  }
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& row = area_.slot(SlotId{i});
    if (row.load_word().state != SlotState::kCommitted) continue;
    if (!segment::index_find(area_, word, row.load_key(), row.load_ns()).slot)
      return verdict_.broken(Oracle::kV1, "the index does not find the page in slot " +
                                              std::to_string(i) + ", which is Committed");
  }
}

}  // namespace orlop::simulation
