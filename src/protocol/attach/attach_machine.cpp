// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/attach_machine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::protocol {

namespace fx = attach_effect;

AttachMachine::AttachMachine(SegmentId segment, const std::vector<Known>& known)
    : segment_(segment) {
  CHECK(segment.value != 0);
  for (const Known& one : known) {
    CHECK(one.client.value != 0 && one.nonce != 0);
    const bool fresh = clients_.emplace(one.client, Client{one.nonce, one.pid, {}, false}).second;
    CHECK(fresh, "the keeper handed a client over twice");
    highest_client_ = std::max(highest_client_, one.client);
  }
}

AttachEffects AttachMachine::connected(ConnectionId id, Peer peer, MonoNs now) {
  CHECK(id.value != 0 && !connections_.contains(id));
  AttachEffects effects;
  if (handshakes() >= kMaxHandshakes) {
    effects.emplace_back(fx::Refuse{
        id,
        {ErrorCode::kLimit, std::to_string(kMaxHandshakes) +
                                " connections wait for their handshake already; try again"}});
    return effects;
  }
  connections_.emplace(id, Connection{std::move(peer), now + kHandshakeLimit, Connected{}});
  return effects;
}

AttachEffects AttachMachine::frame(ConnectionId id, std::span<const std::byte> bytes,
                                   unsigned descriptors, MonoNs now) {
  AttachEffects effects;
  const auto found = connections_.find(id);
  if (found == connections_.end()) return effects;  // refused a moment ago
  Connection& connection = found->second;
  if (!std::holds_alternative<Connected>(connection.state)) {
    refuse(id, ErrorCode::kWrongState, "one frame per connection: this one has had its", effects);
    return effects;
  }
  if (connection.peer.refuse) {
    refuse(id, connection.peer.refuse->code, connection.peer.refuse->text, effects);
    return effects;
  }
  if (now >= connection.deadline) return tick(now);
  const auto kind = frame_kind(bytes);
  if (!kind) {
    refuse(id, kind.error().code, kind.error().message, effects);
    return effects;
  }
  const DescriptorRange range = descriptors_of(*kind);
  if (descriptors < range.least || descriptors > range.most) {
    refuse(id, ErrorCode::kInvalidArgument,
           "frame: came with " + std::to_string(descriptors) + " descriptors, wanted " +
               std::to_string(range.least),
           effects);
    return effects;
  }
  first_frame(id, connection, bytes, effects);
  return effects;
}

AttachEffects AttachMachine::unreceived(ConnectionId id, const Error& error) {
  AttachEffects effects;
  const auto found = connections_.find(id);
  if (found == connections_.end()) return effects;  // refused a moment ago
  const auto& peer = found->second.peer;
  const RefusalFrame frame = peer.refuse.value_or(RefusalFrame{error.code, error.message});
  refuse(id, frame.code, frame.text, effects);
  return effects;
}

void AttachMachine::first_frame(ConnectionId id, Connection& connection,
                                std::span<const std::byte> bytes, AttachEffects& effects) {
  const auto kind = frame_kind(bytes);
  if (*kind == FrameKind::kAttach) {
    const auto frame = decode<AttachFrame>(bytes);
    if (!frame) return refuse(id, frame.error().code, frame.error().message, effects);
    return attach(id, connection, *frame, effects);
  }
  if (*kind == FrameKind::kResume) {
    auto frame = decode<ResumeFrame>(bytes);
    if (!frame) return refuse(id, frame.error().code, frame.error().message, effects);
    return resume(id, connection, std::move(*frame), effects);
  }
  refuse(id, ErrorCode::kInvalidArgument, "frame: kind is not one that a client sends", effects);
}

void AttachMachine::attach(ConnectionId id, Connection& connection, const AttachFrame& frame,
                           AttachEffects& effects) {
  for (const auto& [client, known] : clients_) {
    if (known.nonce == frame.nonce && !known.forgotten && known.pid != connection.peer.pid) {
      return refuse(id, ErrorCode::kRefused,
                    "another process attached with this nonce; a forked child needs a new client",
                    effects);
    }
  }
  forget_others(frame.nonce, {}, effects);
  for (auto& [number, hold] : holds_) {
    if (hold.nonce == frame.nonce && hold.connection) {
      // The older attempt of the same instance: its answer must not go to a socket nobody reads.
      const ConnectionId older = hold.connection;
      leave(older, effects);
      effects.emplace_back(fx::Close{older});
    }
  }
  if (clients_.size() + holds_.size() >= kMaxClients) {
    return refuse(id, ErrorCode::kLimit,
                  "the node has " + std::to_string(kMaxClients) + " clients, its limit", effects);
  }
  const std::uint64_t number = next_attach_++;
  Hold hold{id, frame.nonce, connection.peer.pid, frame.name, {}};
  connection.state = Holding{number};
  effects.emplace_back(fx::CreateAndHold{
      id, HoldFrame{frame.nonce, number, connection.peer.pid, frame.sizes, frame.name}});
  if (PLANTED(kDescriptorsBeforeKeeperAck)) {
    hold.guessed = ClientId{highest_client_.value + 1};
    admit(id, connection, hold.guessed, hold, effects);
  }
  holds_.emplace(number, std::move(hold));
}

void AttachMachine::resume(ConnectionId id, Connection& connection, ResumeFrame&& frame,
                           AttachEffects& effects) {
  const auto known = clients_.find(frame.client);
  if (frame.segment != segment_) {
    return refuse(id, ErrorCode::kClosed,
                  "the memory of segment " + std::to_string(frame.segment.value) +
                      " is gone, this node has segment " + std::to_string(segment_.value),
                  effects);
  }
  if (known == clients_.end() || known->second.nonce != frame.nonce || known->second.forgotten) {
    return refuse(id, ErrorCode::kClosed,
                  "client " + std::to_string(frame.client.value) +
                      " is not known here (any more); attach as a new one",
                  effects);
  }
  if (known->second.pid != connection.peer.pid) {
    return refuse(id, ErrorCode::kRefused,
                  "client " + std::to_string(frame.client.value) + " belongs to process " +
                      std::to_string(known->second.pid) + ", not to " +
                      std::to_string(connection.peer.pid),
                  effects);
  }
  forget_others(frame.nonce, frame.client, effects);
  take_over(frame.client, effects);
  known->second.connection = id;
  connection.state = Attached{frame.client};
  ++attached_;
  effects.emplace_back(fx::Resume{id, std::move(frame)});
}

// An instance has one channel. What else is known under its nonce it never received: a server that
// asked the keeper to hold two in turn may have died before it could drop the first.
void AttachMachine::forget_others(std::uint64_t nonce, ClientId own, AttachEffects& effects) {
  for (auto& [client, known] : clients_) {
    if (known.nonce != nonce || known.forgotten || client == own) continue;
    take_over(client, effects);
    known.forgotten = true;
    effects.emplace_back(fx::Forget{client});
  }
}

// An older connection of the client is over.
void AttachMachine::take_over(ClientId client, AttachEffects& effects) {
  const ConnectionId older = clients_.at(client).connection;
  if (!older) return;
  SOMETIMES(true, "attach: newest connection wins");
  leave(older, effects);
  effects.emplace_back(fx::Close{older});
}

void AttachMachine::admit(ConnectionId id, Connection& connection, ClientId client,
                          const Hold& hold, AttachEffects& effects) {
  const bool fresh = clients_.emplace(client, Client{hold.nonce, hold.pid, id, false}).second;
  CHECK(fresh, "client ids are never reused");
  highest_client_ = std::max(highest_client_, client);
  connection.state = Attached{client};
  ++attached_;
  effects.emplace_back(fx::AddClient{id, client, hold.name});
  effects.emplace_back(fx::Welcome{id, client});
}

AttachEffects AttachMachine::held(const HeldFrame& frame) {
  AttachEffects effects;
  const auto found = holds_.find(frame.attach);
  CHECK(found != holds_.end(), "the keeper acknowledges what was asked, once");
  const Hold hold = std::move(found->second);
  holds_.erase(found);
  if (hold.guessed) return effects;  // planted: welcomed already
  if (!hold.connection) {
    SOMETIMES(true, "attach: client left while the keeper was asked");
    if (frame.client) effects.emplace_back(fx::DropHeld{frame.client});
    return effects;
  }
  if (!frame.client) {
    refuse(hold.connection, ErrorCode::kLimit, frame.text, effects);
    return effects;
  }
  admit(hold.connection, connections_.at(hold.connection), frame.client, hold, effects);
  return effects;
}

AttachEffects AttachMachine::hold_failed(std::uint64_t attach, const Error& error) {
  AttachEffects effects;
  const auto found = holds_.find(attach);
  if (found == holds_.end()) return effects;
  const ConnectionId id = found->second.connection;
  holds_.erase(found);
  if (id) refuse(id, error.code, error.message, effects);
  return effects;
}

AttachEffects AttachMachine::hung_up(ConnectionId id) {
  AttachEffects effects;
  leave(id, effects);
  return effects;
}

AttachEffects AttachMachine::expel(ClientId client, const Error& error) {
  AttachEffects effects;
  const auto known = clients_.find(client);
  if (known == clients_.end() || !known->second.connection) return effects;
  refuse(known->second.connection, error.code, error.message, effects);
  return effects;
}

void AttachMachine::reclaimed(ClientId client) {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return;
  if (known->second.connection) {
    connections_.erase(known->second.connection);
    --attached_;
  }
  clients_.erase(known);
}

AttachEffects AttachMachine::tick(MonoNs now) {
  AttachEffects effects;
  std::vector<ConnectionId> late;
  for (const auto& [id, connection] : connections_) {
    if (!std::holds_alternative<Attached>(connection.state) && now >= connection.deadline) {
      late.push_back(id);
    }
  }
  for (const ConnectionId id : late) {
    refuse(
        id, ErrorCode::kDeadline,
        "the handshake was not over after " + std::to_string(kHandshakeLimit / kNsPerSecond) + " s",
        effects);
  }
  return effects;
}

MonoNs AttachMachine::next_deadline() const {
  MonoNs next = kNever;
  if (handshakes() == 0) return next;  // asked before every sleep of the server
  for (const auto& [id, connection] : connections_) {
    if (!std::holds_alternative<Attached>(connection.state)) {
      next = std::min(next, connection.deadline);
    }
  }
  return next;
}

// The connection is over, whoever ended it.
void AttachMachine::leave(ConnectionId id, AttachEffects& effects) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (const auto* holding = std::get_if<Holding>(&found->second.state)) {
    const auto hold = holds_.find(holding->attach);
    if (hold != holds_.end()) hold->second.connection = {};
  } else if (const auto* attached = std::get_if<Attached>(&found->second.state)) {
    clients_.at(attached->client).connection = {};
    --attached_;
    effects.emplace_back(fx::ClientLost{attached->client});
  }
  connections_.erase(found);
}

void AttachMachine::refuse(ConnectionId id, ErrorCode code, std::string text,
                           AttachEffects& effects) {
  leave(id, effects);
  effects.emplace_back(fx::Refuse{id, {code, std::move(text)}});
}

}  // namespace orlop::protocol
