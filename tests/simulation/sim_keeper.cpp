// SPDX-License-Identifier: Apache-2.0
#include "sim_keeper.h"

#include <utility>

#include "base/sometimes.h"
#include "world.h"

namespace orlop::simulation {

using protocol::decode;
using protocol::DropFrame;
using protocol::FrameKind;
using protocol::HeldFrame;
using protocol::HoldFrame;

SimKeeper::SimKeeper(World& world) : world_(world), machine_(SegmentId{7}) {}

void SimKeeper::step() {
  if (link_) read_frames();
  if (server_ && !server_->process().alive && !server_->process().running) bury_server();
  if (!server_ && world_.now >= start_at_) start_server();
}

void SimKeeper::step_server() {
  if (server_) server_->step();
}

void SimKeeper::read_frames() {
  // What a dead server sent before its end counts: it is in the socket.
  const bool dead = !server_->process().alive;
  if (!dead && world_.fault(world_.options.keeper_slow)) return;
  const MonoNs until = dead ? kNever : world_.now;
  while (std::optional<Packet> packet = link_->to_keeper.receive(until)) handle(*packet);
}

void SimKeeper::handle(const Packet& packet) {
  switch (protocol::frame_kind(packet.frame).value()) {
    case FrameKind::kHold: {
      const HoldFrame asked = decode<HoldFrame>(packet.frame).value();
      HeldFrame answer{asked.attach, {}, "the keeper is out of descriptors"};
      if (!world_.fault(world_.options.keeper_refuses)) answer = held(asked);
      if (answer.client) held_[answer.client] = packet.descriptors;
      world_.note("keeper holds client " + std::to_string(answer.client.value));
      link_->to_server.send({encode(answer), {}}, world_.frame_arrives());
      return;
    }
    case FrameKind::kDrop: {
      const ClientId client = decode<DropFrame>(packet.frame).value().client;
      world_.note("keeper drops client " + std::to_string(client.value));
      if (machine_.drop(client).empty())
        world_.verdict.broken(Oracle::kAttach, "the server drops a client twice");
      held_.erase(client);
      return;
    }
    case FrameKind::kServing:
      machine_.serving();
      return;
    default:
      world_.verdict.broken(Oracle::kAttach, "the server sent a frame that a keeper does not know");
  }
}

// Without a store the answer comes at once.
HeldFrame SimKeeper::held(const HoldFrame& asked) {
  return std::get<protocol::keeper_effect::Answer>(machine_.hold(asked).at(0)).frame;
}

void SimKeeper::bury_server() {
  SOMETIMES(world_.now > 0 && machine_.held() > 0, "sim: server died with clients");
  server_->close_sockets();
  world_.slots.server_died(server_->serving());
  world_.note("keeper saw the end of the server");
  server_.reset();
  link_.reset();
  start_at_ = world_.now + world_.rng.uniform(20 * kNsPerMs);
}

void SimKeeper::start_server() {
  link_ = std::make_shared<KeeperLink>();
  if (!machine_.served()) world_.memory.control.clear();
  const Incarnation incarnation{next_incarnation_++};
  protocol::KeeperMachine::HandOver hand_over = machine_.begin_server(incarnation);
  hand_over.hello.control_bytes = world_.memory.geometry.control_bytes;
  hand_over.hello.value_bytes = world_.memory.geometry.value_bytes();
  link_->to_server.send({encode(hand_over.hello), {}}, world_.frame_arrives());
  for (const protocol::HandOverFrame& channel : hand_over.channels)
    link_->to_server.send({encode(channel), held_.at(channel.client)}, world_.frame_arrives());
  link_->to_server.send({protocol::encode_bare(FrameKind::kHandOverEnd), {}},
                        world_.frame_arrives());
  server_ = std::make_unique<SimServer>(world_, link_);
  world_.note("keeper starts server " + std::to_string(incarnation.value) + " with " +
              std::to_string(hand_over.channels.size()) + " channels");
}

}  // namespace orlop::simulation
