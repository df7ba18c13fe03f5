// SPDX-License-Identifier: Apache-2.0
// Mismatch reports: a reader says that a value's bytes do not match. The node believes its own eyes
// only: a bad link or build of one client must not be able to destroy good pages.
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

void Node::handle(const event::ReportMismatch& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  ClientRecord* client = find_client(e.client);
  if (client == nullptr) return;
  ++counters_.mismatch_reports;
  NodeAnswer& to = answer(effects, e.client, e.request, RequestCode::kReportMismatch);
  const SlotId slot{e.report.slot};
  if (client->checking || node_pins_.size() >= kMaxNodePins || !known_slot(slot)) return;
  const SlotRow& row = area_.slot(slot);
  const SlotWord word = row.load_word(std::memory_order_relaxed);
  if (!word.readable() || word.generation.value != e.report.generation ||
      !row.has_identity(e.report.key, NamespaceIndex{e.report.ns}))
    return;  // it left meanwhile
  const auto ns_row = row_of(NamespaceIndex{e.report.ns});
  if (!ns_row) return;  // flushed: it goes anyway
  client->checking = true;
  node_pins_.push_back({e.client, slot, word.generation});
  const segment::NamespaceTableRow& table = area_.namespace_row(NamespaceRow{*ns_row});
  effects.verify.push_back({e.client, slot, word.generation, row.load_value_len(), e.report.key,
                            table.digest_lo, row.load_checksum()});
  to.args[0] = 1;
}

void Node::handle(const event::ValueVerified& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  (void)effects;
  const auto pin = std::find_if(node_pins_.begin(), node_pins_.end(), [&e](const NodePin& p) {
    return p.reporter == e.reporter && p.slot == e.slot && p.generation == e.generation;
  });
  if (pin == node_pins_.end()) return;
  node_pins_.erase(pin);
  ClientRecord* client = find_client(e.reporter);
  if (client != nullptr) client->checking = false;
  if (e.matches && !PLANTED(kMismatchBelieved)) {
    ++counters_.false_mismatches;
    if (client != nullptr) ++client->false_mismatches;
    return;
  }
  ++counters_.mismatches_confirmed;
  const SlotWord word = area_.slot(e.slot).load_word(std::memory_order_relaxed);
  CHECK(word.generation == e.generation, "a slot the node pins keeps its generation");
  if (!word.readable()) return;  // removed while it was checked
  counters_.removed_slots +=
      drop_group_of_put(SlotId{links_[e.slot.value].leader}, MissCause::kRemoved);
}

}  // namespace orlop::protocol
