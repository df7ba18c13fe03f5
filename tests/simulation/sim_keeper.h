// SPDX-License-Identifier: Apache-2.0
// The keeper process: holds every channel, starts the server and starts it again. When it is killed
// another takes its place: with what a service manager's store has, or with new memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "protocol/attach/keeper_machine.h"
#include "sim_server.h"
#include "wire.h"

namespace orlop::simulation {

class World;

class SimKeeper {
 public:
  explicit SimKeeper(World& world);

  void step();
  void step_server();

  bool holds(ClientId client) const { return machine_->holds(client); }
  std::size_t held() const { return machine_->held(); }
  SimServer* server() { return server_.get(); }
  bool serving() const { return server_ && server_->serving(); }

 private:
  // What outlives a keeper, if there is a service manager.
  struct Store {
    std::set<std::string> names;
    std::map<ClientId, Descriptors> channels;
    std::optional<protocol::LedgerFrame> ledger;
  };
  void kill();
  void lose_frames();
  void follow();
  void begin_segment();
  void perform(const protocol::KeeperEffects& effects);
  void perform_one(const protocol::KeeperEffect& effect);
  void read_frames();
  void handle(const Packet& packet);
  void bury_server();
  void start_server();
  void hand_over();
  void damage();
  void damage_header();

  World& world_;
  std::optional<protocol::KeeperMachine> machine_;
  Store store_;
  bool dead_ = false;  // killed; the next one comes when its server is dead too
  std::map<ClientId, Descriptors> held_;
  std::shared_ptr<KeeperLink> link_;
  std::unique_ptr<SimServer> server_;
  MonoNs start_at_ = 0;
  std::uint64_t next_incarnation_ = 1;
};

}  // namespace orlop::simulation
