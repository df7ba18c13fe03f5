// SPDX-License-Identifier: Apache-2.0
// remove and flush: acts after which bytes must not come back. Both doom whole groups.
#include "protocol/node/node_state.h"

namespace orlop::protocol {

std::optional<std::string> Node::refuse_row(NamespaceRow row) const {
  if (row.value < rows_used_ && area_.current_index(row)) return std::nullopt;
  return "namespace row " + std::to_string(row.value) + " is not open; open the namespace first";
}

void Node::handle(const event::Remove& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  if (find_client(e.client) == nullptr) return;
  if (auto text = refuse_row(e.row)) {
    answer_error(effects, e.client, e.request, RequestCode::kRemove, ErrorCode::kInvalidArgument,
                 std::move(*text));
    return;
  }
  drain_all_missed(kMissedOfAll);
  const NamespaceIndex ns = area_.current_index(e.row);
  std::uint64_t doomed = 0;
  for (const KeyId& key : e.keys) {
    // A second key of the same group finds nothing any more.
    const SlotId slot = segment::index_find(area_, area_.index_word(), key, ns).slot;
    if (!slot) continue;
    const SlotId leader{links_[slot.value].leader};
    doomed += drop_group_of_put(leader, MissCause::kRemoved);
  }
  counters_.removed_slots += doomed;
  answer(effects, e.client, e.request, RequestCode::kRemove).args[0] = doomed;
}

// ---- flush ----

std::optional<NamespaceIndex> Node::next_namespace_index() {
  auto& next = area_.header().next_namespace_index;
  const std::uint32_t index = next.load(std::memory_order_relaxed);
  if (index == ~std::uint32_t{0}) return std::nullopt;
  // First the counter, then its use: a kill in between loses a number, never uses one twice.
  if (!PLANTED(kNamespaceIndexReused)) next.store(index + 1, std::memory_order_release);
  return NamespaceIndex{index};
}

// One store hides every old byte from plans that begin after it.
bool Node::advance_namespace(NamespaceRow row) {
  const auto index = next_namespace_index();
  if (!index) return false;
  last_row_ = {0, 0};
  current_rows_.erase(area_.current_index(row).value);
  rows_[row.value].flushed_index = area_.current_index(row);
  rows_[row.value].flushed_at = now_;
  area_.namespace_row(row).current_index.store(index->value, std::memory_order_release);
  current_rows_.emplace(index->value, row.value);
  row_slots_[row.value] = 0;
  return true;
}

void Node::handle(const event::Flush& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  if (find_client(e.client) == nullptr) return;
  if (auto text = refuse_row(e.row)) {
    answer_error(effects, e.client, e.request, RequestCode::kFlush, ErrorCode::kInvalidArgument,
                 std::move(*text));
    return;
  }
  drain_all_missed(kMissedOfAll);
  const segment::NamespaceTableRow& wanted = area_.namespace_row(e.row);
  std::uint64_t flushed = 0;
  bool exhausted = false;
  for (std::uint32_t r = 0; r < rows_used_; ++r) {
    const segment::NamespaceTableRow& row = area_.namespace_row(NamespaceRow{r});
    const bool same_family = row.family_lo == wanted.family_lo && row.family_hi == wanted.family_hi;
    if (r != e.row.value && (!(e.family && same_family) || PLANTED(kFamilyFlushForgetsRanks)))
      continue;
    if (!advance_namespace(NamespaceRow{r})) {
      exhausted = true;
      break;
    }
    ++flushed;
  }
  counters_.flushes += flushed;
  if (flushed > 0) {
    flush_again_ = flush_active_;
    if (!flush_active_) flush_slab_ = flush_ordinal_ = 0;
    flush_active_ = true;
  }
  if (exhausted) {
    answer_error(effects, e.client, e.request, RequestCode::kFlush, ErrorCode::kLimit,
                 "namespace indexes are exhausted; restart the node with a new segment");
    return;
  }
  answer(effects, e.client, e.request, RequestCode::kFlush).args[0] = flushed;
}

// Walks the assigned slabs, at most flush_slice_slots rows, and dooms what no namespace has any
// more. Nobody can find these bytes already; this only gives the memory back.
void Node::flush_slice() {
  std::uint32_t left = config_.flush_slice_slots;
  while (left > 0 && flush_slab_ < geometry_.slab_count) {
    const std::uint32_t pages = allocator_.class_pages_of(SlabId{flush_slab_});
    const std::uint32_t slots = pages == 0 ? 0 : geometry_.ordinals_per_slab / pages;
    for (; left > 0 && flush_ordinal_ < slots; --left, ++flush_ordinal_) {
      const SlotId slot = geometry_.slot_id(SlabId{flush_slab_}, flush_ordinal_);
      const SlotRow& row = area_.slot(slot);
      if (!row.load_word(std::memory_order_relaxed).readable() || is_current(row.load_ns()))
        continue;
      counters_.flushed_slots +=
          drop_group_of_put(SlotId{links_[slot.value].leader}, MissCause::kFlushed);
    }
    if (flush_ordinal_ < slots) return;
    ++flush_slab_;
    flush_ordinal_ = 0;
    if (left > 0) --left;  // an empty slab costs a step too
  }
  if (flush_slab_ < geometry_.slab_count) return;
  flush_slab_ = flush_ordinal_ = 0;
  flush_active_ = flush_again_;
  flush_again_ = false;
}

}  // namespace orlop::protocol
