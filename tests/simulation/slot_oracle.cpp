// SPDX-License-Identifier: Apache-2.0
#include "slot_oracle.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "process.h"
#include "segment/key_index.h"
#include "segment/slot_row.h"

namespace orlop::simulation {

using segment::SlotRow;
using segment::SlotState;
using segment::SlotWord;

SlotOracle::SlotOracle(const SegmentMemory& memory, const RemovalOracle& removals, Verdict& verdict)
    : memory_(memory), removals_(removals), verdict_(verdict) {
  page_slot_.resize(memory.geometry.value_bytes() / kPageBytes);
}

void SlotOracle::area_formatted() {
  const Unobserved quiet;
  formatted_ = true;
  area_ = segment::ControlArea::open(memory_.control_span()).value();
  std::fill(page_slot_.begin(), page_slot_.end(), 0);
  readable_since_.clear();
  doomed_.clear();
  extents_.clear();
  kept_.clear();
  torn_.clear();
  index_is_built(true);
}

std::string SlotOracle::name_of(SlotId slot, Generation generation) const {
  return "slot " + std::to_string(slot.value) + " generation " + std::to_string(generation.value);
}

void SlotOracle::stored(const void* address, std::uint64_t before_bits, std::uint64_t after_bits) {
  if (!formatted_) return;
  const auto* at = static_cast<const std::byte*>(address);
  const std::byte* table = memory_.control_span().data() + memory_.geometry.slot_table_offset;
  if (at < table) return;
  const auto offset = static_cast<std::uint64_t>(at - table);
  if (offset >= std::uint64_t{memory_.geometry.slot_rows} * sizeof(SlotRow)) return;
  if (offset % sizeof(SlotRow) != offsetof(SlotRow, word)) return;
  const Unobserved quiet;
  ++now_;
  const SlotId slot{static_cast<std::uint32_t>(offset / sizeof(SlotRow))};
  const SlotWord before = SlotWord::unpack(before_bits), after = SlotWord::unpack(after_bits);
  if (!legal(before, after)) {
    verdict_.broken(Oracle::kWord, "illegal transition of " + name_of(slot, before.generation) +
                                       ": state " + std::to_string(static_cast<int>(before.state)) +
                                       " flags " + std::to_string(before.flags) + " -> state " +
                                       std::to_string(static_cast<int>(after.state)) + " flags " +
                                       std::to_string(after.flags) + " generation " +
                                       std::to_string(after.generation.value));
  }
  if (before.state == SlotState::kFree && after.state == SlotState::kPrepared)
    given_out(slot, after);
  if (before.state == SlotState::kPrepared && after.state != SlotState::kPrepared)
    left_prepared(slot, after);
  if (before.state != SlotState::kFree && after.state == SlotState::kFree)
    freed(slot, before.generation);
  if (!before.doomed() && after.doomed()) doomed(slot, before);
  if (after.readable()) {
    if (doomed_.contains({slot, after.generation}))
      verdict_.broken(Oracle::kRemoved, "resurrected: " + name_of(slot, after.generation) +
                                            " was doomed and is readable again");
    readable_since_.emplace(SlotVersion{slot, after.generation}, now_);
    SOMETIMES(true, "sim: a slot is readable");
  }
  word_changed(slot, before, after);
  if (before.readable() || after.readable()) {
    const SlotRow& row = area_.slot(slot);
    page_last_seen_[{row.load_key(), row.load_ns()}] = now_;
  }
}

bool SlotOracle::legal(SlotWord before, SlotWord after) const {
  const SlotState from = before.state, to = after.state;
  if (from == SlotState::kFree && to == SlotState::kPrepared)
    return after.generation.value == before.generation.value + 1 && !after.doomed();
  if (before.generation != after.generation) return false;
  if (after.doomed() && to != SlotState::kRetiring) return false;
  switch (from) {
    case SlotState::kFree:
      return to == SlotState::kFree;
    case SlotState::kPrepared:
      return to == SlotState::kPrepared || to == SlotState::kLocalReady || to == SlotState::kFree;
    case SlotState::kLocalReady:
      return to == SlotState::kLocalReady || to == SlotState::kCommitted ||
             (to == SlotState::kRetiring);
    case SlotState::kCommitted:
      return to == SlotState::kCommitted || to == SlotState::kRetiring;
    case SlotState::kRetiring:
      return to == SlotState::kFree || (to == SlotState::kRetiring && after.doomed()) ||
             (to == SlotState::kCommitted && !before.doomed());
  }
  return false;
}

std::span<std::uint32_t> SlotOracle::pages_of(SlotId slot) {
  const std::uint32_t value_len = area_.slot(slot).load_value_len();
  const std::uint64_t pages = std::max<std::uint64_t>((value_len + kPageBytes - 1) / kPageBytes, 1);
  if (value_len == 0 || !memory_.geometry.in_bounds(slot, value_len)) {
    verdict_.broken(Oracle::kCap,
                    "slot " + std::to_string(slot.value) + " lies outside the value area");
    return {};
  }
  const std::uint64_t first = memory_.geometry.value_offset(slot, value_len) / kPageBytes;
  if (area_.slab(memory_.geometry.slab_of(slot)).slot_pages.load() != pages)
    verdict_.broken(Oracle::kCap, "slot " + std::to_string(slot.value) + " of " +
                                      std::to_string(pages) + " pages lies in another class");
  return std::span(page_slot_).subspan(first, pages);
}

void SlotOracle::given_out(SlotId slot, SlotWord word) {
  const std::span<std::uint32_t> pages = pages_of(slot);
  extents_[slot] = {pages.empty() ? 0 : pages.data() - page_slot_.data(), pages.size()};
  for (std::uint32_t& owner : pages) {
    if (owner != 0)
      verdict_.broken(Oracle::kS2, name_of(slot, word.generation) +
                                       " given out over memory of slot " + std::to_string(owner));
    owner = slot.value;
  }
}

void SlotOracle::left_prepared(SlotId slot, SlotWord after) {
  if (after.readable() && !posted_.contains(area_.slot(slot).load_put()))
    verdict_.broken(Oracle::kV2, name_of(slot, after.generation) +
                                     " became visible though its writer posted no commit");
  if (writers_.contains({slot, after.generation}))
    verdict_.broken(Oracle::kS2, name_of(slot, after.generation) +
                                     " left Prepared while its writer may still write");
}

void SlotOracle::freed(SlotId slot, Generation generation) {
  SOMETIMES(readable_since(slot, generation) != 0 && !doomed_.contains({slot, generation}),
            "sim: a slot is evicted");
  if (readers_.contains({slot, generation}))
    verdict_.broken(Oracle::kS2,
                    name_of(slot, generation) + " freed while a reader holds a pin on it");
  // As it was given out: the row may have been damaged since.
  const auto [first, count] = extents_[slot];
  for (std::uint32_t& owner : std::span(page_slot_).subspan(first, count)) owner = 0;
}

// ---- reasons ------------------------------------------------------------------------------------

bool SlotOracle::namespace_current(SlotId slot, NamespaceRow* row) const {
  const NamespaceIndex index = area_.slot(slot).load_ns();
  for (std::uint32_t i = 0; i < segment::kMaxNamespaceRows; ++i) {
    const NamespaceIndex current = area_.current_index(NamespaceRow{i});
    if (!current) return false;  // rows are used from the first on
    if (current != index) continue;
    *row = NamespaceRow{i};
    return true;
  }
  return false;
}

bool SlotOracle::has_reason_to_be_doomed(SlotId slot) const {
  NamespaceRow row;
  if (!namespace_current(slot, &row)) return true;  // flushed
  const SlotRow& asked = area_.slot(slot);
  const PutId put = asked.load_put();
  const std::uint16_t number = asked.load_fields().group.group_number;
  if (torn_.contains({put, number}) || contradicted_.contains(put)) return true;
  for (std::uint32_t i = 1; i < memory_.geometry.slot_rows; ++i) {
    const SlotRow& member = area_.slot(SlotId{i});
    if (member.load_put() != put || member.load_fields().group.group_number != number) continue;
    const Generation generation = member.load_word().generation;
    const Sequence since = readable_since(SlotId{i}, generation);
    if (corrupted(SlotId{i}, generation)) return true;
    if (removals_.wanted_since(row, member.load_key(), since)) return true;
  }
  return false;
}

void SlotOracle::doomed(SlotId slot, SlotWord before) {
  if (!has_reason_to_be_doomed(slot))
    verdict_.broken(Oracle::kReason, name_of(slot, before.generation) + " doomed for no reason");
  doomed_.insert({slot, before.generation});
}

// ---- users --------------------------------------------------------------------------------------

void SlotOracle::writer_begins(PutId put, SlotId slot, Generation generation, const KeyId& key) {
  const Unobserved quiet;
  const SlotRow& row = area_.slot(slot);
  const SlotWord word = row.load_word();
  if (word.state != SlotState::kPrepared || word.generation != generation ||
      row.load_put() != put || row.load_key() != key)
    verdict_.broken(Oracle::kAnswers,
                    name_of(slot, generation) + " was granted but is not Prepared for this put");
  writers_[{slot, generation}] = put;
}

void SlotOracle::commit_posted(PutId put) {
  posted_.insert(put);
}

void SlotOracle::writer_ends(PutId put) {
  std::erase_if(writers_, [put](const auto& item) { return item.second == put; });
}

void SlotOracle::reader_begins(SlotId slot, Generation generation) {
  const Unobserved quiet;
  const SlotWord word = area_.slot(slot).load_word();
  if (word.generation != generation || (!word.readable() && word.state != SlotState::kRetiring))
    verdict_.broken(Oracle::kV2, name_of(slot, generation) + " was pinned but is not there");
  ++readers_[{slot, generation}];
}

void SlotOracle::reader_ends(SlotId slot, Generation generation) {
  const auto found = readers_.find({slot, generation});
  CHECK(found != readers_.end());
  if (--found->second == 0) readers_.erase(found);
}

void SlotOracle::corrupt(SlotId slot, Generation generation) {
  corrupted_.insert({slot, generation});
}

bool SlotOracle::corrupted(SlotId slot, Generation generation) const {
  return corrupted_.contains({slot, generation});
}

bool SlotOracle::page_readable_since(const KeyId& key, NamespaceIndex index, Sequence since) const {
  const Unobserved quiet;
  const auto found = page_last_seen_.find({key, index});
  if (found == page_last_seen_.end()) return false;
  return found->second >= since ||
         segment::index_find(area_, area_.index_word(), key, index).slot.value != 0;
}

Sequence SlotOracle::readable_since(SlotId slot, Generation generation) const {
  const auto found = readable_since_.find({slot, generation});
  return found == readable_since_.end() ? 0 : found->second;
}

}  // namespace orlop::simulation
