// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/keeper_machine.h"

#include "base/check.h"

namespace orlop::protocol {

HeldFrame KeeperMachine::hold(const HoldFrame& frame) {
  if (channels_.size() >= kMaxClients) {
    return {frame.attach,
            {},
            "the keeper holds " + std::to_string(kMaxClients) + " clients, its limit"};
  }
  if (next_client_ > kMaxClientId)
    return {frame.attach, {}, "client ids of this segment are exhausted"};
  const ClientId client{next_client_++};
  channels_.emplace(client, HandOverFrame{client, frame.nonce, frame.pid, frame.sizes, frame.name});
  return {frame.attach, client, {}};
}

bool KeeperMachine::drop(ClientId client) {
  return channels_.erase(client) == 1;
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

}  // namespace orlop::protocol
