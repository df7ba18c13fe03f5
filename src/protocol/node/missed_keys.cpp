// SPDX-License-Identifier: Apache-2.0
#include "protocol/node/missed_keys.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/node/node_state.h"
#include "segment/key_index.h"

namespace orlop::protocol {
namespace {

constexpr unsigned kCauseBits = 3;
static_assert(kMissCauseCount <= 1U << kCauseBits);

std::uint32_t coarse_seconds(MonoNs now) {
  return static_cast<std::uint32_t>(now / kNsPerSecond) & (~std::uint32_t{0} >> kCauseBits);
}

}  // namespace

std::string_view to_string(MissCause cause) {
  switch (cause) {
    case MissCause::kNeverWritten:
      return "never_written";
    case MissCause::kEvicted:
      return "evicted";
    case MissCause::kRemoved:
      return "removed";
    case MissCause::kFlushed:
      return "flushed";
    case MissCause::kRefused:
      return "refused";
    case MissCause::kOtherNamespace:
      return "other_namespace";
  }
  return "unknown";
}

// ---- keys that left ----

std::size_t GoneKeys::place_of(const KeyId& key, NamespaceIndex ns) {
  // As the key index does, so that a page of several ranks spreads.
  return segment::index_hash(key, ns).bucket & (kPlaces - 1);
}

std::uint64_t GoneKeys::tag_of(const KeyId& key) {
  return key.hi ^ (key.lo * 0x9E3779B97F4A7C15ULL);
}

void GoneKeys::left(const KeyId& key, NamespaceIndex ns, MissCause cause, MonoNs now) {
  DCHECK(cause != MissCause::kNeverWritten && cause != MissCause::kOtherNamespace);
  places_[place_of(key, ns)] = {
      tag_of(key), ns.value, coarse_seconds(now) << kCauseBits | static_cast<std::uint32_t>(cause)};
}

std::optional<GoneKeys::Gone> GoneKeys::find(const KeyId& key, NamespaceIndex ns,
                                             MonoNs now) const {
  const Place& place = places_[place_of(key, ns)];
  if (!ns || place.ns != ns.value || place.tag != tag_of(key)) return std::nullopt;
  const std::uint32_t when = place.seconds >> kCauseBits, seconds = coarse_seconds(now);
  const auto cause = static_cast<MissCause>(place.seconds & ((1U << kCauseBits) - 1));
  return Gone{cause, (seconds >= when ? seconds - when : 0) * kNsPerSecond};
}

// ---- the sample ----

// Of the namespace as it is, or of before its last flush: then gone already, or still to be doomed
// by a slice. Asked in this order, since a key can leave twice.
std::optional<GoneKeys::Gone> Node::why_left(const KeyId& key, std::uint32_t row,
                                             MonoNs now) const {
  if (const auto gone = gone_.find(key, area_.current_index(NamespaceRow{row}), now)) return gone;
  const NamespaceRecord& record = rows_[row];
  if (!record.flushed_index) return std::nullopt;
  if (const auto gone = gone_.find(key, record.flushed_index, now)) return gone;
  if (!segment::index_find(area_, area_.index_word(), key, record.flushed_index).slot)
    return std::nullopt;
  return GoneKeys::Gone{MissCause::kFlushed,
                        (now - std::min(now, record.flushed_at)) / kNsPerSecond * kNsPerSecond};
}

// A get that missed is older than the event at hand, so what became of its key meanwhile (it was
// put, most often) must not change the cause: what left is asked before what is here.
MissCause Node::why_missed(const KeyId& key, std::uint32_t row, MonoNs* age,
                           std::uint32_t* looked_at) const {
  if (const auto left = why_left(key, row, now_)) {
    *age = left->age;
    return left->cause;
  }
  const segment::IndexWord word = area_.index_word();
  for (const std::uint32_t sibling : families_[rows_[row].family]) {
    if (sibling == row) continue;
    if (*looked_at == kMaxSiblings) break;
    ++*looked_at;
    const NamespaceIndex other = area_.current_index(NamespaceRow{sibling});
    if (PLANTED(kGoneOfOtherNamespace)) {
      if (const auto gone = gone_.find(key, other, now_)) return gone->cause;
    }
    if (segment::index_find(area_, word, key, other).slot) return MissCause::kOtherNamespace;
  }
  return MissCause::kNeverWritten;
}

// Returns the other namespaces looked at.
std::uint32_t Node::count_missed(const segment::MissedKey& missed) {
  if (missed.row.value >= rows_used_) {  // a client writes what it likes
    ++counters_.missed_lost;
    return 0;
  }
  MonoNs age = 0;
  std::uint32_t looked_at = 0;
  const MissCause cause = why_missed(missed.key, missed.row.value, &age, &looked_at);
  ++counters_.missed[static_cast<std::size_t>(cause)];
  ++rows_[missed.row.value].traffic.missed[static_cast<std::size_t>(cause)];
  if (cause == MissCause::kEvicted) counters_.missed_evicted_age += age;
  return looked_at;
}

// Overdraws the budget by one key at most.
void Node::drain_missed(ClientRecord& client, std::uint32_t& budget) {
  while (!client.dead && budget > 0 && client.missed.pending()) {
    --budget;
    counters_.missed_lost += client.missed.drain(1, [&](const segment::MissedKey& missed) {
      budget -= std::min(budget, count_missed(missed));
    });
  }
}

// Begins behind the client where the last one ended, so that one that misses much takes nobody's
// turn.
void Node::drain_all_missed(std::uint32_t budget) {
  auto at = clients_.upper_bound(missed_drained_);
  for (std::size_t left = clients_.size(); left > 0 && budget > 0; --left, ++at) {
    if (at == clients_.end()) at = clients_.begin();
    drain_missed(at->second, budget);
    missed_drained_ = at->first;
  }
}

}  // namespace orlop::protocol
