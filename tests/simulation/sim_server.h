// SPDX-License-Identifier: Apache-2.0
// The server process: attach machine, node machine and what a driver does around them, without an
// event loop of its own: one step() is one turn.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/attach/attach_machine.h"
#include "protocol/node/node_machine.h"
#include "ring_end.h"
#include "wire.h"

namespace orlop::simulation {

class World;

// Request ids of the simulation's own making: their answers go to nobody's ring.
inline constexpr std::uint64_t kForged = std::uint64_t{1} << 63;

class SimServer {
 public:
  SimServer(World& world, std::shared_ptr<KeeperLink> link);

  void step();
  Process& process() { return *process_; }
  bool serving() const { return serving_; }
  // It ended because the control area is damaged (the product's exit status 65).
  bool condemns_segment() const { return condemns_segment_; }
  // What the kernel does at its end.
  void close_sockets();
  void lose_a_socket();
  // For the oracles; null while it does not serve or stands inside a step.
  protocol::NodeMachine* idle_node();
  bool idle() const;  // nothing waits for it

 private:
  // A client as this server knows it. The rings are touched only while `rings` is set.
  struct ClientEnd {
    Descriptors held;
    segment::ChannelView channel;
    std::optional<RingEnd> rings{};
    protocol::ConnectionId connection{};
    bool death_told = false;
    bool fork_close_told = false;
  };
  // A hold that the keeper was asked for.
  struct Asked {
    protocol::ConnectionId connection;
    Descriptors made;
  };
  struct VerifyJob {
    protocol::VerifyValue wanted;
    MonoNs done_at = 0;
  };
  // A commit or an abort that was served.
  struct PastRequest {
    ClientId client;
    PutId put;
    bool commit = false;
    std::vector<protocol::CommitEntry> entries{};
  };
  // Gone with the process.
  struct Private {
    std::optional<protocol::HelloFrame> hello;
    std::vector<std::pair<protocol::HandOverFrame, Descriptors>> handed_over;
    std::unique_ptr<protocol::NodeMachine> node;
    std::unique_ptr<protocol::AttachMachine> attach;
    std::map<protocol::ConnectionId, std::shared_ptr<Socket>> sockets;
    std::map<protocol::ConnectionId, Descriptors> fork_pipes;  // came with the first frame
    std::map<std::uint64_t, Asked> asked;                      // by attach number
    Descriptors held;  // what the kHeld that is being handled is about
    std::map<ClientId, ClientEnd> clients;
    std::deque<Packet> to_keeper;
    std::vector<VerifyJob> verify;
    std::vector<PastRequest> past;  // what a client with a fault may send again
    std::uint64_t next_forged = 1;
    bool asleep = false;
    std::uint64_t next_connection = 1;
  };

  void turn();
  // sim_server.cpp: keeper, start, machine
  void read_keeper();
  void handle_keeper_frame(const Packet& packet);
  void recover();
  void recover_warm(std::vector<protocol::NodeMachine::HandedOver> channels,
                    protocol::RecoveryReport& report);
  void adopt_clients(const std::vector<ClientId>& reclaimed);
  void refuse_segment(const Error& error);
  void send_to_keeper(Packet packet);
  void flush_to_keeper();
  void feed(const protocol::NodeEvent& event);
  void apply(protocol::NodeEffects& effects);
  void forget_client(ClientId client);
  void poll_deaths();
  void poll_rings();
  void check_deadlines();
  bool any_ring_waits() const;
  bool anything_happened();
  bool sleeps_on();
  void fall_asleep();
  void wake_answered(const std::vector<ClientId>& answered);
  // sim_server_forged.cpp: clients that send what they should not
  void remember(const protocol::NodeEvent& asked);
  void send_again();
  void check_forged(const protocol::NodeAnswer& answer);
  void check_commit(const protocol::event::PutCommit& asked, const protocol::NodeEffects& effects);
  void finish_verifications();
  void run_background();
  // sim_server_attach.cpp: sockets and the attach machine's effects
  void accept();
  void read_sockets();
  void apply(protocol::AttachEffects effects);
  void apply_one(const protocol::attach_effect::CreateAndHold& effect);
  void apply_one(const protocol::attach_effect::AddClient& effect);
  void apply_one(const protocol::attach_effect::Welcome& effect);
  void apply_one(const protocol::attach_effect::Resume& effect);
  void apply_one(const protocol::attach_effect::ClientLost& effect);
  void apply_one(const protocol::attach_effect::Forget& effect);
  void apply_one(const protocol::attach_effect::Refuse& effect);
  void apply_one(const protocol::attach_effect::Close& effect);
  void apply_one(const protocol::attach_effect::DropHeld& effect);
  void close_socket(protocol::ConnectionId connection);
  void send_to_client(protocol::ConnectionId connection, Packet packet);

  World& world_;
  std::shared_ptr<Process> process_;
  std::shared_ptr<KeeperLink> link_;
  std::vector<std::shared_ptr<Socket>> accepted_;  // the kernel's list
  bool serving_ = false;                           // it was once
  bool condemns_segment_ = false;
  std::unique_ptr<Private> my_;
};

}  // namespace orlop::simulation
