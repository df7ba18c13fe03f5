// SPDX-License-Identifier: Apache-2.0
// drain: a node that is to be emptied of work, or taken away, admits no new puts. What is under way
// may commit, reads go on, removal and eviction too. The word in the control area says it to the
// next server.
#include "protocol/node/node_state.h"

namespace orlop::protocol {

void Node::handle(const event::Drain& e, MonoNs now, NodeEffects& effects) {
  if (find_client(e.client) == nullptr) return;
  if (e.mode != DrainMode::kAsk) {
    draining_ = e.mode == DrainMode::kBegin;
    // Before the answer: a kill after it must not undo what was promised.
    area_.header().draining.store(draining_ ? 1 : 0, std::memory_order_release);
    // Puts that wait for memory have nothing reserved: they are new ones.
    if (draining_ && !waiting_.empty()) {
      SOMETIMES(true, "drain begins over a waiting put");
      serve_waiting(now, effects);
      CHECK(waiting_.empty(), "a draining node has nothing to wait for");
    }
  }
  NodeAnswer& to = answer(effects, e.client, e.request, RequestCode::kDrain);
  to.args[0] = draining_ ? 1 : 0;
  to.args[1] = puts_.size() + waiting_.size();
  count_pins(kMinScanSpacing, now);
  to.args[2] = node_pins_.size();
  for (const auto& [id, one] : clients_) to.args[2] += one.pinned_cells;
}

}  // namespace orlop::protocol
