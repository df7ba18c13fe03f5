// SPDX-License-Identifier: Apache-2.0
// Puts that wait for memory: a bounded queue, first come first served within a size class.
//
// A waiting put has nothing reserved. It ends by memory, by its deadline (with what fits), by a
// flush of its namespace, by its abort, or silently when its client's rings are gone.
#include <algorithm>
#include <bitset>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

bool Node::may_enqueue(const event::PutStart& put) const {
  return waiting_.size() < kMaxWaitingPuts && waiting_keys_ + put.keys.size() <= kMaxWaitingKeys;
}

void Node::enqueue(const event::PutStart& put, NamespaceIndex ns, MonoNs deadline) {
  ++counters_.space_waits;
  WaitingPut& waiting = waiting_.emplace_back();
  waiting.put = put;
  waiting.keys.assign(put.keys.begin(), put.keys.end());
  waiting.group_lens.assign(put.group_lens.begin(), put.group_lens.end());
  waiting.put.keys = waiting.keys;
  waiting.put.group_lens = waiting.group_lens;
  waiting.ns = ns;
  waiting.size_class = *classes_.find(slot_pages_for(put.value_len));
  waiting.deadline = deadline;
  waiting_keys_ += put.keys.size();
}

bool Node::has_waiting(SizeClass size_class) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [size_class](const WaitingPut& waiting) {
    return waiting.size_class == size_class;
  });
}

bool Node::is_waiting(PutId put) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [put](const WaitingPut& waiting) { return waiting.put.put == put; });
}

void Node::answer_whole_put(const event::PutStart& put, Outcome outcome, NodeEffects& effects) {
  plan_.outcomes.assign(put.keys.size(), outcome);
  plan_.over_quota = plan_.not_admitted = false;
  const auto first_grant = static_cast<std::uint32_t>(effects.grants.size());
  effects.grants.resize(effects.grants.size() + put.keys.size());
  const ClientRecord* client = find_client(put.client);
  CHECK(client != nullptr);
  answer_put(put, *client, false, first_grant, effects);
}

void Node::serve_waiting(MonoNs now, NodeEffects& effects) {
  space_freed_ = false;
  std::bitset<SizeClasses::kLimit> blocked;  // classes in which an earlier put goes on waiting
  std::deque<WaitingPut> still;
  while (!waiting_.empty()) {
    WaitingPut waiting = std::move(waiting_.front());  // vectors keep their memory: spans stay good
    waiting_.pop_front();
    ClientRecord* client = find_client(waiting.put.client);
    CHECK(client != nullptr, "waiting puts of a client go before it");
    const bool may_wait = now < waiting.deadline;
    const bool behind = blocked.test(waiting.size_class);
    if (area_.current_index(waiting.put.row) != waiting.ns) {
      SOMETIMES(true, "a namespace is flushed under a waiting put");
      answer_whole_put(waiting.put, Outcome::kFlushed, effects);
    } else if (!try_put(waiting.put, waiting.ns, *client, now, may_wait, behind, effects)) {
      blocked.set(waiting.size_class);
      still.push_back(std::move(waiting));
      continue;
    }
    if (PLANTED(kWaitingPutAnsweredTwice)) {
      still.push_back(std::move(waiting));
      continue;
    }
    waiting_keys_ -= waiting.keys.size();
  }
  waiting_ = std::move(still);
}

void Node::drop_waiting_of(ClientId client) {
  std::erase_if(waiting_, [this, client](const WaitingPut& waiting) {
    if (waiting.put.client != client) return false;
    waiting_keys_ -= waiting.keys.size();
    return true;
  });
}

// An abort that overtakes its put_start's answer: the put ends, answered once.
bool Node::abort_waiting(PutId put, NodeEffects& effects) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [put](const WaitingPut& w) { return w.put.put == put; });
  if (found == waiting_.end()) return false;
  answer_whole_put(found->put, Outcome::kAborted, effects);
  waiting_keys_ -= found->keys.size();
  waiting_.erase(found);
  return true;
}

}  // namespace orlop::protocol
