// SPDX-License-Identifier: Apache-2.0
// Recovery: the walk, the order of acts, index and policy. The verdicts are in recover_groups.cpp.
#include <algorithm>

#include "protocol/node/recovery.h"

namespace orlop::protocol {
namespace {

// Something that a node writes.
bool is_possible(SlotWord word) {
  if (word.flags != 0 && word.flags != segment::kFlagDoomed) return false;
  if (word.doomed()) return word.state == SlotState::kRetiring;
  return word.state <= SlotState::kRetiring;
}

}  // namespace

Result<void> check_slab_table(const segment::ControlArea& area) {
  const segment::Geometry& geometry = area.geometry();
  for (std::uint32_t s = 0; s < geometry.slab_count; ++s) {
    const std::uint32_t pages = area.slab(SlabId{s}).slot_pages.load(std::memory_order_relaxed);
    if (pages <= geometry.ordinals_per_slab) continue;
    return fail(ErrorCode::kCorrupt, "slab table: slots of slab " + std::to_string(s) + " have " +
                                         std::to_string(pages) + " pages, the slab has " +
                                         std::to_string(geometry.ordinals_per_slab));
  }
  return {};
}

Result<void> Node::recover_from(std::vector<HandedOver> clients, MonoNs now,
                                RecoveryReport& report) {
  return Recovery(*this, now, report).run(std::move(clients));
}

Result<void> Recovery::run(std::vector<NodeMachine::HandedOver> clients) {
  for (NodeMachine::HandedOver& handed : clients) {
    if (handed.channel.reclaimed(handed.client)) {
      SOMETIMES(true, "recovery meets a reclaimed channel");
      report_.reclaimed.push_back(handed.client);
      continue;
    }
    ClientRecord record;
    record.id = handed.client;
    record.channel = handed.channel;
    record.name = std::move(handed.name);
    record.touches = segment::TouchReader(handed.channel);
    record.missed = segment::MissedReader(handed.channel);
    // Told to the server before this one: not in our sums.
    record.reported = segment::load_counters(handed.channel.report());
    record.since = now_;
    if (!node_.clients_.emplace(handed.client, std::move(record)).second)
      return fail(ErrorCode::kCorrupt, "the keeper handed over one client twice");
  }
  if (auto loaded = node_.load_namespaces(); !loaded) return loaded;
  if (!PLANTED(kDrainForgottenAtRecover))
    node_.draining_ = node_.area_.header().draining.load(std::memory_order_relaxed) != 0;
  if (auto walked = walk(); !walked) return walked;
  decide_all();
  if (!sizes_) return sizes_;
  // All marks are stored. Only now fence and scan; what was pinned before counts.
  if (!PLANTED(kPinsForgottenAtRestart)) node_.scan_ledgers();
  node_.finish_scan(now_);
  rebuild_index();
  fill_policy();
  node_.refill_due_ = true;
  return {};
}

Result<void> Recovery::walk() {
  const segment::Geometry& geometry = node_.geometry_;
  for (std::uint32_t s = 0; s < geometry.slab_count; ++s) {
    const std::uint32_t pages = node_.allocator_.class_pages_of(SlabId{s});
    if (pages == 0) continue;
    if (!node_.classes_.add(pages))
      return fail(ErrorCode::kCorrupt, "slab table: more size classes than a node assigns");
    if (auto walked = walk_slab(SlabId{s}, geometry.ordinals_per_slab / pages); !walked)
      return walked;
  }
  return {};
}

Result<void> Recovery::walk_slab(SlabId slab, std::uint32_t slots) {
  const segment::Geometry& geometry = node_.geometry_;
  std::uint32_t used = 0;  // slots in a row, up to this one, that are not Free
  const auto end_run = [&](std::uint32_t end) {
    if (used > 0) node_.allocator_.mark_used(geometry.slot_id(slab, end - used), used);
    used = 0;
  };
  for (std::uint32_t ordinal = 0; ordinal < slots; ++ordinal) {
    const SlotId slot = geometry.slot_id(slab, ordinal);
    const SlotRow& row = node_.area_.slot(slot);
    const SlotWord word = row.load_word();
    if (!is_possible(word))
      return fail(ErrorCode::kCorrupt, "slot " + std::to_string(slot.value) + " has state " +
                                           std::to_string(static_cast<int>(word.state)) +
                                           ", flags " + std::to_string(word.flags));
    if (word.state == SlotState::kFree) {
      end_run(ordinal);
      continue;
    }
    ++used;
    ++node_.slots_in_state_[static_cast<int>(word.state)];
    if (take_single(slot, word)) continue;
    const segment::SlotFields fields = row.load_fields();
    found_.push_back({fields.put.value, slot.value, fields.group.group_number, fields.group.index});
  }
  end_run(slots);
  report_.slots_walked += slots;
  return {};
}

void Recovery::decide_all() {
  // The slot last: a torn or forged row may repeat an index, and the order must still be one.
  std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
    if (a.put != b.put) return a.put < b.put;
    if (a.number != b.number) return a.number < b.number;
    if (a.index != b.index) return a.index < b.index;
    return a.slot < b.slot;
  });
  for (std::size_t begin = 0; begin < found_.size();) {
    std::size_t end = begin + 1;
    while (end < found_.size() && found_[end].put == found_[begin].put &&
           found_[end].number == found_[begin].number)
      ++end;
    decide(std::span(found_).subspan(begin, end - begin));
    begin = end;
  }
  found_ = {};
}

// ---- index ----

void Recovery::rebuild_index() {
  constexpr std::size_t kAhead = 16;  // groups; buckets are cold and lie anywhere
  node_.indexed_slots_ = node_.allocator_.assigned_slots();
  node_.index_.begin_rebuild(node_.indexed_slots_);
  const segment::IndexWord aside{
      0, static_cast<std::uint8_t>(node_.area_.index_word().place ^ 1),
      static_cast<std::uint8_t>(
          std::min(segment::index_log2_for(node_.indexed_slots_), node_.geometry_.max_index_log2))};
  const auto insert_group = [this](SlotId leader) {
    for (std::uint32_t id = leader.value; id != 0; id = node_.links_[id].next) {
      const SlotRow& row = node_.area_.slot(SlotId{id});
      if (!row.load_word(std::memory_order_relaxed).readable()) continue;
      node_.index_.insert(row.load_key(), row.load_ns(), SlotId{id});
    }
  };
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (i + kAhead < kept_.size()) {
      const SlotRow& row = node_.area_.slot(kept_[i + kAhead].leader);
      segment::index_prefetch(node_.area_, aside, row.load_key(), row.load_ns());
    }
    insert_group(kept_[i].leader);
  }
  for (const SlotId leader : partly_) insert_group(leader);
  node_.index_.publish_rebuild();
}

// ---- policy ----

// Oldest first, by the coarse recency of the rows (4 s); within one unit from the last slot to the
// first, so that of groups put together the deeper ones are older.
void Recovery::fill_policy() {
  cut_cycles();
  std::uint32_t oldest = 0;
  for (const Kept& kept : kept_) oldest = std::max<std::uint32_t>(oldest, kept.age);
  std::vector<std::uint32_t> first(oldest + 2, 0);  // by reversed age: counting sort
  const auto bucket = [oldest](const Kept& kept) { return oldest - kept.age; };
  for (const Kept& kept : kept_) ++first[bucket(kept) + 1];
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<std::uint32_t> order(kept_.size());
  for (std::size_t i = kept_.size(); i-- > 0;)
    order[first[bucket(kept_[i])]++] = static_cast<std::uint32_t>(i);
  for (const std::uint32_t i : order) {
    const Kept& kept = kept_[i];
    const std::uint32_t pages = node_.class_pages_of(kept.leader);
    node_.policy_->inserted({kept.leader, SlotId{parents_[kept.leader.value]}, kept.members, pages,
                             *node_.classes_.find(pages)});
  }
}

// A row knows 16 bits of its parent's generation: after 65,536 reuses of that slot an edge could
// name a stranger, and strangers can form a cycle, which would never be evicted.
void Recovery::cut_cycles() {
  parents_ = SparseArray<std::uint32_t>(node_.geometry_.slot_rows);
  for (const Kept& kept : kept_) {
    if (const SlotId parent = node_.parent_group_of(kept.leader))
      parents_[kept.leader.value] = parent.value;
  }
  SparseArray<std::uint32_t> seen(node_.geometry_.slot_rows);  // by leader: from which start
  for (std::uint32_t start = 1; start <= kept_.size(); ++start) {
    std::uint32_t at = kept_[start - 1].leader.value;
    while (at != 0 && seen[at] == 0) {
      seen[at] = start;
      const std::uint32_t parent = parents_[at];
      if (parent != 0 && seen[parent] == start) {
        SOMETIMES(true, "a cycle of parents is cut at recovery");
        parents_[at] = 0;
        break;
      }
      at = parent;
    }
  }
}

}  // namespace orlop::protocol
