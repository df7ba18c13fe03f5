// SPDX-License-Identifier: Apache-2.0
// A size class that has nothing of its own to evict takes a slab from another: the coldest one of
// the class whose oldest group has been idle longest, emptied slot by slot by the ordinary step.
#include <algorithm>
#include <limits>

#include "protocol/node/node_state.h"

namespace orlop::protocol {
namespace {

constexpr std::uint32_t kColdnessSamples = 32;        // rows looked at per slab
constexpr std::uint64_t kFreeIsColderThan = 0x10000;  // any recency age

}  // namespace

std::optional<SizeClasses::Number> Node::coldest_class_but(SizeClass c) const {
  std::optional<SizeClass> coldest;
  std::uint64_t best = 0;
  for (SizeClass other = 0; other < classes_.count(); ++other) {
    if (other == c) continue;
    const auto oldest = policy_->oldest(other);
    if (oldest && (!coldest || *oldest < best)) {
      coldest = other;
      best = *oldest;
    }
  }
  return coldest;
}

// Mean recency age of a sample of the slab's slots; higher = colder.
std::uint64_t Node::coldness(SlabId slab, std::uint32_t pages, MonoNs now) const {
  const std::uint32_t slots = geometry_.ordinals_per_slab / pages;
  const std::uint32_t samples = std::min(slots, kColdnessSamples);
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const auto ordinal = static_cast<std::uint32_t>(std::uint64_t{i} * slots / samples);
    const SlotWord word =
        area_.slot(geometry_.slot_id(slab, ordinal)).load_word(std::memory_order_relaxed);
    sum += word.readable() ? static_cast<std::uint16_t>(coarse(now) - word.recency)
                           : kFreeIsColderThan;
  }
  return sum / samples;
}

// Slabs with slots that cannot leave now (being written, pinned, doomed and read) are no use.
std::optional<SlabId> Node::coldest_slab(SizeClass c, std::span<const SlabId> chosen,
                                         MonoNs now) const {
  std::optional<SlabId> coldest;
  std::uint64_t best = 0;
  for (std::uint32_t s = 0; s < geometry_.slab_count; ++s) {
    const SlabId slab{s};
    if (allocator_.class_pages_of(slab) != classes_.pages(c) || busy_in_slab_[s] != 0) continue;
    if (std::find(chosen.begin(), chosen.end(), slab) != chosen.end()) continue;
    const std::uint64_t cold = coldness(slab, classes_.pages(c), now);
    if (!coldest || cold > best) {
      coldest = slab;
      best = cold;
    }
  }
  return coldest;
}

// Retires every whole group with a member in the slab; its other members may lie elsewhere.
void Node::retire_slab(SlabId slab, std::uint32_t pages, std::vector<SlotId>& leaders) {
  const std::uint32_t slots = geometry_.ordinals_per_slab / pages;
  for (std::uint32_t ordinal = 0; ordinal < slots; ++ordinal) {
    const SlotId slot = geometry_.slot_id(slab, ordinal);
    if (area_.slot(slot).load_word(std::memory_order_relaxed).state != SlotState::kCommitted)
      continue;
    const SlotId leader{links_[slot.value].leader};
    if (marked_bits_.test(leader)) continue;  // a member elsewhere is pinned
    retire_group(leader);
    leaders.push_back(leader);
  }
}

// True if it freed anything.
bool Node::steal_slabs(SizeClass c, std::uint64_t slots, MonoNs now) {
  const auto donor = coldest_class_but(c);
  if (!donor) return false;
  const std::uint64_t per_slab = geometry_.ordinals_per_slab / classes_.pages(c);
  const std::uint64_t wanted = (slots - available(c) + per_slab - 1) / per_slab;
  std::vector<SlabId> chosen;
  while (chosen.size() < std::min<std::uint64_t>(wanted, kMaxStolenSlabs)) {
    const auto slab = coldest_slab(*donor, chosen, now);
    if (!slab) break;
    chosen.push_back(*slab);
  }
  if (chosen.empty()) return false;
  SOMETIMES(true, "a slab is taken from another class");
  drain_rings(std::numeric_limits<std::uint32_t>::max(), kMissedOfAll, now);
  std::vector<SlotId> leaders;
  for (const SlabId slab : chosen) retire_slab(slab, classes_.pages(*donor), leaders);
  counters_.groups_selected += leaders.size();
  scan_ledgers();
  for (const SlotId leader : leaders) {
    collect_members(leader, group_members_);
    if (found_pinned(group_members_)) {
      restore_group(group_members_);
      policy_->pinned(leader);
      mark_pinned(leader);
      ++counters_.groups_restored;
    } else {
      free_group(group_members_);
      policy_->removed(leader);
      ++counters_.groups_freed;
    }
  }
  finish_scan(now);
  return true;  // take() turns wholly free slabs of others into its own
}

}  // namespace orlop::protocol
