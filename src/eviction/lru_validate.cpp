// SPDX-License-Identifier: Apache-2.0
// The invariants of LruPolicy, recomputed from nothing but the rows.
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "eviction/lru.h"

namespace orlop {

void LruPolicy::validate() const {
  validate_counters();
  for (std::uint32_t c = 0; c < kMaxClasses; ++c) validate_class(static_cast<std::uint16_t>(c));
  for_each_in(parked_, [this](std::uint32_t id) { CHECK(state_of(id) == State::kParked); });
  for_each_in(parked_, [this](std::uint32_t id) { CHECK(held_by_children(id)); });
  for_each_in(pinned_, [this](std::uint32_t id) { CHECK(state_of(id) == State::kPinned); });
  validate_links();
  validate_pending();
}

void LruPolicy::validate_class(std::uint16_t class_id) const {
  const SizeClass& size_class = classes_[class_id];
  std::uint64_t listed = 0;
  std::uint64_t sampled = 0;
  std::uint32_t older = 0;
  auto sample = size_class.samples.samples().begin();
  const auto samples_end = size_class.samples.samples().end();
  for_each_in(size_class.list, [&](std::uint32_t id) {
    const Row& row = rows_[id];
    CHECK(state_of(id) == State::kListed && row.class_id == class_id);
    CHECK(row.older == older);
    older = id;
    ++listed;
    if (!row.sampled) return;
    ++sampled;
    CHECK(sample != samples_end && sample->member == id, "samples are not in list order");
    ++sample;
  });
  CHECK(size_class.list.youngest == older && size_class.listed == listed);
  CHECK(sample == samples_end && sampled <= RecencySamples::kMaxSamples);
}

void LruPolicy::validate_links() const {
  std::unordered_map<std::uint32_t, std::uint32_t> children;
  std::unordered_map<std::uint32_t, std::uint32_t> departing;
  std::vector<std::uint64_t> present(kMaxClasses);
  std::vector<std::uint64_t> resident_bytes_by_class(kMaxClasses);
  std::uint64_t present_groups = 0;
  for_each_present([&](std::uint32_t id) {
    const Row& row = rows_[id];
    ++present_groups;
    ++present[row.class_id];
    if (state_of(id) != State::kPending) resident_bytes_by_class[row.class_id] += bytes_of(id);
    if (!link_valid(row)) return;
    const std::uint32_t parent = row.parent;  // no reference may bind to a packed field
    ++children[parent];
    if (state_of(id) == State::kPending) ++departing[parent];
  });
  CHECK(departing == departing_);
  for (std::uint32_t c = 0; c < kMaxClasses; ++c) {
    CHECK(classes_[c].present == present[c]);
    CHECK(classes_[c].resident_bytes == resident_bytes_by_class[c]);
  }
  std::uint64_t present_rows = 0;
  for (std::uint32_t id = 1; id <= highest_used_; ++id) {
    const auto it = children.find(id);
    CHECK(rows_[id].children == (it == children.end() ? 0 : it->second), "children miscounted");
    if (state_of(id) != State::kAbsent) ++present_rows;
  }
  CHECK(present_rows == present_groups, "a present group is in no list");
}

void LruPolicy::validate_pending() const {
  for (std::uint32_t ticket = 0; ticket < pending_.size(); ++ticket) {
    const std::uint32_t id = pending_[ticket];
    CHECK(id == 0 || (state_of(id) == State::kPending && rows_[id].older == ticket));
  }
  CHECK(pending_.size() - free_tickets_.size() == counters().pending);
}

}  // namespace orlop
