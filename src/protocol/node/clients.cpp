// SPDX-License-Identifier: Apache-2.0
// Clients come, come back, get lost, die and go.
//
//   what ends          | lost | resume            | died, fork open | died / fork closed | detach
//   -------------------+------+-------------------+-----------------+--------------------+-------
//   waiting puts       | yes  | yes               | yes             | yes                | yes
//   Prepared           | -    | those not held    | -               | all                | all
//   partly ready groups| -    | those not held    | all             | all                | all
//   read pins          | -    | -                 | all             | all                | all
//   the channel        | -    | -                 | -               | reclaimed          |
//   reclaimed
#include <algorithm>

#include "protocol/node/node_state.h"

namespace orlop::protocol {

ClientRecord* Node::find_client(ClientId id) {
  const auto client = clients_.find(id);
  return client == clients_.end() ? nullptr : &client->second;
}

void Node::handle(const event::ClientAttached& e, MonoNs now, NodeEffects& effects) {
  (void)effects;
  ClientRecord record;
  record.id = e.client;
  record.channel = e.channel;
  record.name = e.name;
  record.touches = segment::TouchReader(e.channel);
  record.missed = segment::MissedReader(e.channel);
  record.since = now;
  const bool fresh = clients_.emplace(e.client, std::move(record)).second;
  CHECK(fresh, "client ids are never used twice");
  ++counters_.clients_attached;
}

// Frees the client's Prepared slots (and drops its partly ready groups) but those of `held` puts.
void Node::free_prepared_of(ClientRecord& client, std::span<const PutId> held) {
  auto put = puts_.lower_bound(make_put_id(client.id, 0));
  while (put != puts_.end() && owner_of(put->first) == client.id) {
    const auto current = put++;
    if (std::binary_search(held.begin(), held.end(), current->first)) continue;
    counters_.prepared_reclaimed += end_put(current);
  }
}

// A partly ready group is kept only while its owner lives. Nobody writes into it any more (its
// commit was posted), so it need not wait for the fork pipe.
void Node::drop_partly_ready_of(ClientId client) {
  std::vector<SlotId> partly;
  auto put = puts_.lower_bound(make_put_id(client, 0));
  while (put != puts_.end() && owner_of(put->first) == client) {
    const auto current = put++;
    partly.clear();
    for (const SlotId leader : current->second.leaders) {
      collect_members(leader, group_members_);
      const bool any = std::any_of(group_members_.begin(), group_members_.end(), [this](SlotId m) {
        return area_.slot(m).load_word(std::memory_order_relaxed).readable();
      });
      if (any) partly.push_back(leader);
    }
    for (const SlotId leader : partly) drop_group(leader, &current->second, MissCause::kRefused);
    sweep_put(current);
  }
}

void Node::handle(const event::ClientResumed& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  (void)effects;
  ClientRecord* client = find_client(e.client);
  if (client == nullptr || client->dead) return;
  ++counters_.clients_resumed;
  client->lost = false;
  drop_waiting_of(e.client);  // requests of the old rings get nothing
  std::vector<PutId> held = e.held;
  std::sort(held.begin(), held.end());
  if (!PLANTED(kPreparedOfLostAnswerLeaked)) free_prepared_of(*client, held);
}

void Node::handle(const event::ClientLost& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  (void)effects;
  ClientRecord* client = find_client(e.client);
  if (client == nullptr) return;
  client->lost = true;
  drop_waiting_of(e.client);
}

void Node::reclaim(ClientRecord& client, NodeEffects& effects) {
  drain_touches(client, kBackgroundTouches, now_);
  std::uint32_t missed = kMissedPerEvent;
  drain_missed(client, missed);
  segment::fold(segment::load_counters(client.channel.report()), client.reported, traffic_);
  drop_waiting_of(client.id);
  free_prepared_of(client, {});
  CHECK(client.prepared_slots == 0 && client.open_puts == 0);
  const ClientId id = client.id;
  // After all else: a kill before it leaves a client that the next server knows as usual.
  if (!PLANTED(kReclaimNotSaid)) client.channel.mark_reclaimed(id);
  clients_.erase(id);
  effects.reclaimed.push_back({id});
  // What it pinned may leave now.
  if (!marked_.empty() || !doomed_.empty()) doomed_scan_due_ = true;
}

void Node::handle(const event::ClientDied& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  ClientRecord* client = find_client(e.client);
  if (client == nullptr || client->dead) return;
  ++counters_.clients_died;
  client->dead = true;  // from here on its ledger is not scanned: read pins go
  client->fork_open = e.fork_pipe_open && !PLANTED(kForkPipeIgnored);
  client->pinned_cells = client->pinned_bytes = 0;
  drop_waiting_of(e.client);
  if (!client->fork_open) {
    reclaim(*client, effects);
    return;
  }
  SOMETIMES(true, "a forked child outlives its parent");
  drop_partly_ready_of(e.client);
  if (!marked_.empty() || !doomed_.empty()) doomed_scan_due_ = true;
  if (client->prepared_slots == 0) reclaim(*client, effects);
}

void Node::handle(const event::ForkPipeClosed& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  ClientRecord* client = find_client(e.client);
  // While the process lives it may still fork; its death will say how the pipe stands then.
  if (client == nullptr || !client->dead) return;
  reclaim(*client, effects);
}

// The client has ended all its plans, says it, and touches nothing any more.
void Node::handle(const event::Detach& e, MonoNs now, NodeEffects& effects) {
  (void)now;
  ClientRecord* client = find_client(e.client);
  if (client == nullptr) return;
  ++counters_.clients_detached;
  answer(effects, e.client, e.request, RequestCode::kDetach);
  reclaim(*client, effects);
}

}  // namespace orlop::protocol
