// SPDX-License-Identifier: Apache-2.0
#include "sim_keeper.h"

#include <utility>

#include "base/sometimes.h"
#include "protocol/attach/keeper_ledger.h"
#include "world.h"

namespace orlop::simulation {

using protocol::decode;
using protocol::DropFrame;
using protocol::FrameKind;
using protocol::HoldFrame;

namespace fx = protocol::keeper_effect;

SimKeeper::SimKeeper(World& world) : world_(world) {
  begin_segment();
}

void SimKeeper::step() {
  if (!dead_ && world_.fault(world_.options.keeper_killed)) kill();
  if (link_ && !dead_) read_frames();
  if (server_ && !server_->process().alive && !server_->process().running) bury_server();
  if (server_) return;
  if (dead_) return follow();
  if (world_.now >= start_at_) start_server();
}

void SimKeeper::step_server() {
  if (server_) server_->step();
}

// ---- death --------------------------------------------------------------------------------------

// Its server dies with it, and what nobody accepted yet with its listening socket.
void SimKeeper::kill() {
  world_.note("keeper killed");
  dead_ = true;
  if (server_) server_->process().alive = false;
  for (const auto& socket : world_.listener.backlog) socket->closed_by_server = true;
  world_.listener.backlog.clear();
}

// Frames that it had not read are gone with its socket.
void SimKeeper::lose_frames() {
  while (const std::optional<Packet> packet = link_->to_keeper.receive(kNever))
    SOMETIMES(protocol::frame_kind(packet->frame).value() == FrameKind::kDrop,
              "sim: a drop is lost with its keeper");
}

void SimKeeper::follow() {
  dead_ = false;
  held_.clear();
  if (!world_.options.store) {
    SOMETIMES(true, "sim: the memory is lost with its keeper");
    world_.note("a new keeper begins with new memory");
    return begin_segment();
  }
  const std::vector<std::string> names(store_.names.begin(), store_.names.end());
  const Result<protocol::Adoption> adoption = protocol::judge_store(*store_.ledger, names);
  if (!adoption) {
    if (store_.ledger->served)
      world_.verdict.broken(Oracle::kRestart,
                            "a keeper cannot use what is kept: " + adoption.error().message);
    return begin_segment();
  }
  SOMETIMES(true, "sim: a new keeper takes over the memory");
  world_.note("a new keeper takes over the memory");
  machine_.emplace(*store_.ledger, *adoption);
  store_.ledger = machine_->ledger();
  for (const std::string& name : adoption->leftover) store_.names.erase(name);
  for (const protocol::HandOverFrame& client : store_.ledger->clients)
    held_[client.client] = store_.channels.at(client.client);
}

// The first one at the start of the world.
void SimKeeper::begin_segment() {
  if (machine_) world_.begin_segment();
  machine_.emplace(world_.segment().id, world_.options.store);
  held_.clear();
  store_ = {};
  store_.ledger = machine_->ledger();
  for (const auto name :
       {protocol::kStoredLedger, protocol::kStoredControl, protocol::kStoredValue})
    store_.names.emplace(name);
}

// ---- effects ------------------------------------------------------------------------------------

// It may be killed between any two of them; the store answers at once (keeper_store_sim_test has
// one that takes its time).
void SimKeeper::perform(const protocol::KeeperEffects& effects) {
  for (const protocol::KeeperEffect& effect : effects) {
    if (!dead_ && world_.fault(world_.options.keeper_killed)) kill();
    if (dead_) return;
    perform_one(effect);
  }
}

void SimKeeper::perform_one(const protocol::KeeperEffect& effect) {
  if (const auto* one = std::get_if<fx::Store>(&effect)) {
    for (const std::string& name : protocol::stored_names_of(one->client))
      store_.names.insert(name);
    store_.channels[one->client] = held_.at(one->client);
    perform(machine_->stored(one->client));
  } else if (const auto* server = std::get_if<fx::StoreServer>(&effect)) {
    store_.names.insert(protocol::stored_name_of_server(server->server));
    perform(machine_->server_stored(server->server));
  } else if (std::holds_alternative<fx::WriteLedger>(effect)) {
    store_.ledger = machine_->ledger();
  } else if (std::holds_alternative<fx::HandOver>(effect)) {
    hand_over();
  } else if (const auto* answer = std::get_if<fx::Answer>(&effect)) {
    world_.note("keeper holds client " + std::to_string(answer->frame.client.value));
    link_->to_server.send({encode(answer->frame), {}}, world_.frame_arrives());
  } else if (const auto* gone = std::get_if<fx::LetGo>(&effect)) {
    for (const std::string& name : protocol::stored_names_of(gone->client))
      store_.names.erase(name);
    store_.channels.erase(gone->client);
    held_.erase(gone->client);
  } else if (const auto* old = std::get_if<fx::ForgetServer>(&effect)) {
    store_.names.erase(protocol::stored_name_of_server(old->server));
  }
}

void SimKeeper::read_frames() {
  // What a dead server sent before its end counts: it is in the socket.
  const bool dead = !server_->process().alive;
  if (!dead && world_.fault(world_.options.keeper_slow)) return;
  const MonoNs until = dead ? kNever : world_.now;
  while (!dead_) {
    const std::optional<Packet> packet = link_->to_keeper.receive(until);
    if (!packet) return;
    handle(*packet);
  }
}

void SimKeeper::handle(const Packet& packet) {
  switch (protocol::frame_kind(packet.frame).value()) {
    case FrameKind::kHold: {
      const HoldFrame asked = decode<HoldFrame>(packet.frame).value();
      if (world_.fault(world_.options.keeper_refuses))
        return perform({fx::Answer{{asked.attach, {}, "the keeper is out of descriptors"}}});
      // Under the id that it is about to get.
      const ClientId next{machine_->last_client().value + 1};
      held_[next] = packet.descriptors;
      return perform(machine_->hold(asked));
    }
    case FrameKind::kDrop: {
      const ClientId client = decode<DropFrame>(packet.frame).value().client;
      world_.note("keeper drops client " + std::to_string(client.value));
      const protocol::KeeperEffects effects = machine_->drop(client);
      if (effects.empty())
        world_.verdict.broken(Oracle::kAttach, "the server drops a client twice");
      return perform(effects);
    }
    case FrameKind::kServing:
      return perform(machine_->serving());
    default:
      world_.verdict.broken(Oracle::kAttach, "the server sent a frame that a keeper does not know");
  }
}

// ---- servers ------------------------------------------------------------------------------------

void SimKeeper::bury_server() {
  SOMETIMES(machine_->held() > 0, "sim: server died with clients");
  const bool condemned = server_->condemns_segment();
  server_->close_sockets();
  world_.segment().slots.server_died(server_->serving());
  world_.note("keeper saw the end of the server");
  server_.reset();
  if (dead_) lose_frames();
  link_.reset();
  start_at_ = world_.now + world_.rng.uniform(20 * kNsPerMs);
  if (dead_) return;
  perform(machine_->server_ended());
  if (condemned) {
    SOMETIMES(true, "sim: a damaged segment is given up");
    world_.note("keeper begins a new segment");
    begin_segment();
  } else if (machine_->served() && world_.fault(world_.options.damaged)) {
    damage();
  }
}

void SimKeeper::damage() {
  if (world_.roll(600)) return world_.segment().slots.damage_rows(world_.rng);
  damage_header();
}

void SimKeeper::damage_header() {
  SimSegment& segment = world_.segment();
  auto& header = *reinterpret_cast<segment::ControlHeader*>(segment.memory.control_span().data());
  if (world_.roll(300)) {
    constexpr std::size_t kChecked = offsetof(segment::ControlHeader, fixed_sum) + 8;
    const std::uint64_t bit = world_.rng.uniform(kChecked * 8);
    segment.memory.control_span()[bit / 8] ^= std::byte{1} << (bit % 8);
    segment.header_damaged = true;
    world_.note("header damaged at bit " + std::to_string(bit));
    return;
  }
  SOMETIMES(true, "sim: a changing part of the header is damaged");
  const std::uint64_t junk = world_.rng.next();
  const std::uint64_t which = world_.rng.uniform(6);
  world_.note("header word " + std::to_string(which) + " damaged");
  const auto small = static_cast<std::uint32_t>(junk);
  if (which == 0) header.index_word.store(junk);
  if (which == 1) header.pin_cap_bytes.store(junk);
  if (which == 2) header.incarnation.store(junk);
  if (which == 3) header.server_state.store(small);
  if (which == 4) header.node_sleeping.store(small);
  if (which == 5) header.draining.store(small);
  segment.drains.forget();
}

void SimKeeper::start_server() {
  link_ = std::make_shared<KeeperLink>();
  if (!machine_->served()) world_.segment().memory.control.clear();
  server_ = std::make_unique<SimServer>(world_, link_);
  perform(machine_->server_started());
}

void SimKeeper::hand_over() {
  const Incarnation incarnation{next_incarnation_++};
  const SegmentMemory& memory = world_.segment().memory;
  protocol::KeeperMachine::HandOver hand_over = machine_->begin_server(incarnation);
  hand_over.hello.control_bytes = memory.geometry.control_bytes;
  hand_over.hello.value_bytes = memory.geometry.value_bytes();
  link_->to_server.send({encode(hand_over.hello), {}}, world_.frame_arrives());
  for (const protocol::HandOverFrame& channel : hand_over.channels)
    link_->to_server.send({encode(channel), held_.at(channel.client)}, world_.frame_arrives());
  link_->to_server.send({protocol::encode_bare(FrameKind::kHandOverEnd), {}},
                        world_.frame_arrives());
  world_.note("keeper starts server " + std::to_string(incarnation.value) + " with " +
              std::to_string(hand_over.channels.size()) + " channels");
}

}  // namespace orlop::simulation
