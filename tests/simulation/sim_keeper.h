// SPDX-License-Identifier: Apache-2.0
// The keeper process: holds every channel, starts the server and starts it again.
#pragma once

#include <map>
#include <memory>

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

  bool holds(ClientId client) const { return machine_.holds(client); }
  std::size_t held() const { return machine_.held(); }
  SimServer* server() { return server_.get(); }
  bool serving() const { return server_ && server_->serving(); }

 private:
  void read_frames();
  void handle(const Packet& packet);
  protocol::HeldFrame held(const protocol::HoldFrame& asked);
  void bury_server();
  void start_server();

  World& world_;
  protocol::KeeperMachine machine_;
  std::map<ClientId, Descriptors> held_;
  std::shared_ptr<KeeperLink> link_;
  std::unique_ptr<SimServer> server_;
  MonoNs start_at_ = 0;
  std::uint64_t next_incarnation_ = 1;
};

}  // namespace orlop::simulation
