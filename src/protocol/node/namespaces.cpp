// SPDX-License-Identifier: Apache-2.0
// The namespace table: open, look up, load after a restart.
#include <cstring>

#include "orlop/namespace.h"
#include "protocol/node/node_state.h"
#include "segment/key_id.h"

namespace orlop::protocol {
namespace {

std::string_view text_of(const segment::ControlArea& area, NamespaceRow row) {
  const std::span<char> text = area.namespace_text(row);
  const std::uint32_t bytes = area.namespace_row(row).text_bytes;
  return {text.data(), bytes <= text.size() ? bytes : 0};
}

}  // namespace

// Rows are filled from the first on and never closed. 1,024 at most, opened a few times an hour:
// walked.
std::optional<NamespaceRow> Node::find_namespace(std::string_view text,
                                                 const segment::Digest& digest,
                                                 bool* conflict) const {
  *conflict = false;
  for (std::uint32_t r = 0; r < rows_used_; ++r) {
    const segment::NamespaceTableRow& row = area_.namespace_row(NamespaceRow{r});
    if (row.digest_lo != digest.lo || row.digest_hi != digest.hi) continue;
    if (text_of(area_, NamespaceRow{r}) == text) return NamespaceRow{r};
    *conflict = true;
    return std::nullopt;
  }
  return std::nullopt;
}

void Node::handle(const event::OpenNamespace& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  if (find_client(e.client) == nullptr) return;
  const auto refuse = [&](ErrorCode code, std::string text) {
    answer_error(effects, e.client, e.request, RequestCode::kOpenNamespace, code, std::move(text));
  };
  const auto accept = [&](NamespaceRow row) {
    NodeAnswer& to = answer(effects, e.client, e.request, RequestCode::kOpenNamespace);
    to.args[0] = row.value;
    to.args[1] = area_.current_index(row).value;
    to.args[2] = area_.namespace_row(row).value_len;
  };
  const auto descriptor = parse_descriptor(e.text);
  if (!descriptor) return refuse(descriptor.error().code, descriptor.error().message);
  const auto text = canonical_text(*descriptor);
  if (!text) return refuse(text.error().code, text.error().message);
  const auto family = family_text(*descriptor);
  if (!family) return refuse(family.error().code, family.error().message);

  const segment::Digest digest = segment::digest_of(*text);
  bool conflict = false;
  if (const auto row = find_namespace(*text, digest, &conflict)) return accept(*row);
  if (conflict) {
    return refuse(ErrorCode::kNamespaceConflict,
                  "another descriptor with the same digest is open; change one of them");
  }
  if (segment::slots_per_slab(geometry_.slab_bytes, descriptor->value_len) == 0) {
    return refuse(ErrorCode::kInvalidArgument,
                  "value_len " + std::to_string(descriptor->value_len) +
                      " does not fit into a slab of " + std::to_string(geometry_.slab_bytes) +
                      " bytes; raise memory.max_value_len");
  }
  if (rows_used_ == segment::kMaxNamespaceRows) {
    return refuse(ErrorCode::kLimit, "all " + std::to_string(segment::kMaxNamespaceRows) +
                                         " namespaces are in use; restart the node");
  }
  if (!classes_.add(slot_pages_for(descriptor->value_len))) {
    return refuse(ErrorCode::kLimit, "all " + std::to_string(SizeClasses::kLimit) +
                                         " size classes are in use; restart the node");
  }
  const auto index = next_namespace_index();
  if (!index) return refuse(ErrorCode::kLimit, "namespace indexes are exhausted; restart the node");

  const NamespaceRow row{rows_used_};
  const std::span<char> place = area_.namespace_text(row);
  CHECK(text->size() <= place.size(), "canonical_text() keeps to the limit");
  std::memcpy(place.data(), text->data(), text->size());
  const segment::Digest family_digest = segment::digest_of(*family);
  segment::NamespaceTableRow& table = area_.namespace_row(row);
  table.value_len = descriptor->value_len;
  table.digest_lo = digest.lo;
  table.digest_hi = digest.hi;
  table.family_lo = family_digest.lo;
  table.family_hi = family_digest.hi;
  table.text_bytes = static_cast<std::uint32_t>(text->size());
  // Last: a row counts from here on.
  table.current_index.store(index->value, std::memory_order_release);
  ++rows_used_;
  row_opened();
  current_rows_.emplace(index->value, row.value);
  accept(row);
}

// The last row is new: its family is that of an earlier row, or its own. Walked, as above.
void Node::row_opened() {
  const std::uint32_t row = rows_used_ - 1;
  const segment::NamespaceTableRow& own = area_.namespace_row(NamespaceRow{row});
  NamespaceRecord& record = rows_.emplace_back();
  CHECK(rows_.size() == rows_used_);
  record.family = static_cast<std::uint32_t>(families_.size());
  for (std::uint32_t r = 0; r < row; ++r) {
    const segment::NamespaceTableRow& other = area_.namespace_row(NamespaceRow{r});
    if (other.family_lo != own.family_lo || other.family_hi != own.family_hi) continue;
    record.family = rows_[r].family;
    break;
  }
  if (record.family == families_.size()) families_.emplace_back();
  families_[record.family].push_back(row);
}

// After a restart: rows, their current indexes and size classes.
Result<void> Node::load_namespaces() {
  auto& next = area_.header().next_namespace_index;
  for (std::uint32_t r = 0; r < segment::kMaxNamespaceRows; ++r) {
    const NamespaceIndex index = area_.current_index(NamespaceRow{r});
    if (!index) break;  // rows are opened in order
    const std::uint32_t value_len = area_.namespace_row(NamespaceRow{r}).value_len;
    if (value_len == 0 || segment::slots_per_slab(geometry_.slab_bytes, value_len) == 0 ||
        !classes_.add(slot_pages_for(value_len)) || index.value >= next.load()) {
      return fail(ErrorCode::kCorrupt, "namespace table: row " + std::to_string(r) +
                                           " has value_len " + std::to_string(value_len) +
                                           ", index " + std::to_string(index.value));
    }
    if (!current_rows_.emplace(index.value, r).second)
      return fail(ErrorCode::kCorrupt, "namespace table: two rows with one index");
    rows_used_ = r + 1;
    row_opened();
  }
  // Rows are opened in order: what lies behind a hole is damage. It would count again, perhaps with
  // an index that was given to another row meanwhile, once the hole is filled and the node
  // restarts.
  for (std::uint32_t r = rows_used_; r < segment::kMaxNamespaceRows; ++r) {
    auto& index = area_.namespace_row(NamespaceRow{r}).current_index;
    if (index.load(std::memory_order_relaxed) != 0) index.store(0, std::memory_order_release);
  }
  return {};
}

std::vector<NodeMachine::NamespaceGauge> Node::namespaces() const {
  std::vector<NamespaceGauge> rows;
  for (std::uint32_t r = 0; r < rows_used_; ++r) {
    const NamespaceRow row{r};
    rows.push_back({row, area_.current_index(row), area_.namespace_row(row).value_len,
                    text_of(area_, row), row_slots_[r],
                    row_slots_[r] * segment::slot_bytes(area_.namespace_row(row).value_len),
                    rows_[r].traffic});
  }
  return rows;
}

}  // namespace orlop::protocol
