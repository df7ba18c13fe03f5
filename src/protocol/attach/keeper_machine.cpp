// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_machine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::protocol {

namespace fx = keeper_effect;

KeeperMachine::KeeperMachine(const LedgerFrame& ledger, const Adoption& adoption)
    : segment_(ledger.segment),
      with_store_(true),
      next_client_(adoption.next_client),
      served_(ledger.served),
      server_(adoption.last_server) {
  for (const HandOverFrame& channel : ledger.clients) channels_.emplace(channel.client, channel);
}

// ---- servers ---------------------------------------------------------------------------------

KeeperEffects KeeperMachine::server_started() {
  ++server_;
  if (!with_store_) return {fx::HandOver{}};
  server_waits_ = true;
  return {fx::StoreServer{server_}};
}

KeeperEffects KeeperMachine::server_stored(std::uint32_t server) {
  if (!server_waits_ || server != server_) return {};  // of one that is dead already
  server_waits_ = false;
  written_server_ = server;
  return {fx::WriteLedger{}, fx::HandOver{}};
}

KeeperEffects KeeperMachine::server_ended() {
  KeeperEffects effects;
  // Nobody waits for these any more, and their clients never got a descriptor.
  for (const auto& [client, pending] : std::exchange(pending_, {})) {
    effects.emplace_back(fx::LetGo{client});
  }
  if (!with_store_) return effects;
  written_server_ = 0;
  server_waits_ = false;
  effects.emplace_back(fx::WriteLedger{});
  effects.emplace_back(fx::ForgetServer{server_});
  return effects;
}

KeeperMachine::HandOver KeeperMachine::begin_server(Incarnation incarnation) {
  CHECK(incarnation.value != 0);
  CHECK(served_ || channels_.empty(), "clients attach only to a server that serves");
  HandOver out;
  out.hello.segment = segment_;
  out.hello.incarnation = incarnation;
  out.hello.cold = !served_;
  out.hello.channels = static_cast<std::uint32_t>(channels_.size());
  out.channels.reserve(channels_.size());
  for (const auto& [client, channel] : channels_) out.channels.push_back(channel);
  return out;
}

KeeperEffects KeeperMachine::serving() {
  if (std::exchange(served_, true) || !with_store_) return {};
  return {fx::WriteLedger{}};
}

// ---- clients ---------------------------------------------------------------------------------

KeeperEffects KeeperMachine::hold(const HoldFrame& frame) {
  if (channels_.size() + pending_.size() >= kMaxClients) {
    return {
        fx::Answer{{frame.attach,
                    {},
                    "the keeper holds " + std::to_string(kMaxClients) + " clients, its limit"}}};
  }
  if (next_client_ > kMaxClientId)
    return {fx::Answer{{frame.attach, {}, "client ids of this segment are exhausted"}}};
  const ClientId client{next_client_++};
  HandOverFrame channel{client, frame.nonce, frame.pid, frame.sizes, frame.name};
  if (!with_store_) {
    channels_.emplace(client, std::move(channel));
    return {fx::Answer{{frame.attach, client, {}}}};
  }
  pending_.emplace(client, Pending{std::move(channel), frame.attach});
  if (PLANTED(kHeldBeforeStored))
    return {fx::Answer{{frame.attach, client, {}}}, fx::Store{client}};
  return {fx::Store{client}};
}

KeeperEffects KeeperMachine::stored(ClientId client) {
  const auto found = pending_.find(client);
  if (found == pending_.end()) return {};  // its server died meanwhile
  Pending pending = std::move(found->second);
  pending_.erase(found);
  channels_.emplace(client, std::move(pending.channel));
  KeeperEffects effects;
  if (with_store_) effects.emplace_back(fx::WriteLedger{});
  if (!PLANTED(kHeldBeforeStored)) effects.emplace_back(fx::Answer{{pending.attach, client, {}}});
  return effects;
}

KeeperEffects KeeperMachine::drop(ClientId client) {
  if (channels_.erase(client) == 0) return {};
  if (!with_store_) return {fx::LetGo{client}};
  return {fx::WriteLedger{}, fx::LetGo{client}};
}

KeeperEffects KeeperMachine::store_lost() {
  if (!std::exchange(with_store_, false)) return {};
  KeeperEffects effects;
  if (std::exchange(server_waits_, false)) effects.emplace_back(fx::HandOver{});
  while (!pending_.empty()) {
    for (KeeperEffect& effect : stored(pending_.begin()->first))
      effects.push_back(std::move(effect));
  }
  return effects;
}

LedgerFrame KeeperMachine::ledger() const {
  LedgerFrame frame;
  frame.segment = segment_;
  frame.served = served_;
  frame.next_client = next_client_;
  frame.server = written_server_;
  for (const auto& [client, channel] : channels_) frame.clients.push_back(channel);
  return frame;
}

}  // namespace orlop::protocol
