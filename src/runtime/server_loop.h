// SPDX-License-Identifier: Apache-2.0
// The server: runs the node machine and the attach machine on one thread.
//
//   rings of every client -> request decoder -> node machine -> answers -> client's doorbell
//   Unix socket, keeper's socket, pidfds, fork pipes -> attach machine / node machine
//
// Guarantees
//   * The thread never waits for a client or for the keeper: every socket is non-blocking, answers
//     always have a cell (a client that asks more than it may is closed), frames to the keeper wait
//     in a bounded queue.
//   * A client that writes nonsense into its channel loses its connection, nobody else anything.
//   * Bounded work per client and round (kMessagesPerTurn), background work in slices.
//   * Death is a pidfd that fired, nothing else. Prepared slots of the dead go when also the fork
//     pipe has ended.
// Sleep: store node_sleeping, full fence, look at all rings again, epoll_wait. Clients: store tail,
//   full fence, read node_sleeping, ring. Spinning before it: adaptive (spin.h); none unless
//   there is a CPU for each client that asked lately and one for the node.
// Thread: create(), run() and the destructor on one; ports() any other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "platform/epoll_loop.h"
#include "platform/event_fd.h"
#include "platform/unix_socket.h"
#include "protocol/attach/attach_machine.h"
#include "protocol/node/node_machine.h"
#include "protocol/node/request_decoder.h"
#include "runtime/admin_ports.h"
#include "runtime/served_client.h"
#include "runtime/server_start.h"
#include "runtime/spin.h"
#include "runtime/value_verifier.h"

namespace orlop::runtime {

// Messages taken from one client before the next one's turn: enough to amortise a round, few
// enough that a put of 128 pages of another client waits well below a millisecond.
inline constexpr unsigned kMessagesPerTurn = 32;
// Under load, sockets and deaths are looked at this often.
inline constexpr MonoNs kEventsAtLeastEvery = kNsPerMs;
// Graceful stop: what was asked is answered; puts that wait for space wait no longer than 10 ms.
inline constexpr MonoNs kStopLimit = kNsPerSecond / 2;
// A client without pidfd (unsafe_no_pidfd) that has not come back after a server restart.
inline constexpr MonoNs kUnprovedReturnLimit = 30 * kNsPerSecond;

struct ServerConfig {
  protocol::NodeConfig node;
  std::vector<uid_t> allowed_uids;  // apart from our own and root
  bool unsafe_no_pidfd = false;     // take a hang-up for a death where no pidfd is to be had
  std::optional<MonoNs> spin_ns;    // none: adaptive
};

struct StartReport {
  protocol::RecoveryReport recovery;
  MonoNs took_ns = 0;  // recovery: slot table walked, index and policy rebuilt
};

class ServerLoop {
 public:
  // Recovers the node from the segment (or starts it cold) and tells the keeper that it serves.
  // Errors: of the machine (kInvalidArgument: configuration), kSystem, kClosed.
  static Result<std::unique_ptr<ServerLoop>> create(const ServerConfig& config, ServerStart start);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  // Until the keeper says stop (no error) or is gone (kClosed). Other errors: kSystem.
  Result<void> run();

  AdminPorts& ports() { return ports_; }
  const SegmentMap& segment() const { return segment_; }
  const StartReport& start_report() const { return start_report_; }
  // The admin socket of the keeper, once; may be none.
  FileDescriptor take_admin_socket() { return std::move(admin_socket_); }

 private:
  // What an epoll event is about; the tag is this << 32 | number of the connection or client.
  enum class Watch : std::uint32_t {
    kWake,
    kListener,
    kKeeper,
    kConnection,
    kDoorbell,
    kProcess,
    kForkPipe
  };
  struct Connection {
    protocol::ConnectionId id;
    FileDescriptor socket;
    PidFd process;  // moves to the client's channel
    bool unproved = false;
    FileDescriptor fork_pipe;  // came with the first frame
  };
  struct Holding {  // asked of the keeper
    std::uint64_t attach = 0;
    ChannelFiles files;
    segment::ChannelSizes sizes;
    segment::ChannelGeometry geometry;
    std::uint32_t pid = 0;
    bool unproved = false;
  };

  ServerLoop(const ServerConfig& config, ServerStart start);
  Result<void> start_machine();
  Result<void> start_watching();
  Result<void> adopt_clients();

  // server_rings.cpp: the hot path.
  bool serve_rings();
  void serve(ServedClient& client);
  Result<void> handle(ServedClient& client, const segment::RingMessage& message);
  void malformed(ServedClient& client, std::string why);
  void settle();
  void write_answer(const protocol::NodeAnswer& answer);
  void put_body(ServedClient& client, const OpenRequest& open, const protocol::NodeAnswer& answer,
                segment::RingMessage& out);
  void wake_answered();
  bool any_ring_waits() const;
  bool crowded() const;
  void punch(unsigned place);

  // server_loop.cpp
  Result<void> one_round(bool& idle);
  Result<void> sleep_or_spin();
  Result<void> wait_events(MonoNs timeout);
  void run_due(bool idle);
  void after_round();
  MonoNs next_deadline() const;
  bool stop_is_over() const;
  void serve_threads();
  std::shared_ptr<NodeSnapshot> snapshot() const;

  // server_attach.cpp
  static std::uint64_t tag(Watch watch, std::uint64_t number);
  Result<void> dispatch(const EpollEvent& event);
  void accept_connections();
  Result<std::optional<FileDescriptor>> accept_to_refuse();
  void listen_later();
  void listen_again();
  void add_connection(FileDescriptor socket, std::optional<protocol::RefusalFrame> refuse = {});
  void read_connection(Connection& connection);
  Result<void> read_keeper();
  void watch_keeper();
  Result<void> keeper_frame(ReceivedMessage message);
  void execute(protocol::AttachEffects effects);
  void execute_one(protocol::attach_effect::CreateAndHold& effect);
  void execute_one(protocol::attach_effect::AddClient& effect);
  void execute_one(protocol::attach_effect::Welcome& effect);
  void execute_one(protocol::attach_effect::Resume& effect);
  void execute_one(protocol::attach_effect::ClientLost& effect);
  void execute_one(protocol::attach_effect::Forget& effect);
  void execute_one(protocol::attach_effect::Refuse& effect);
  void execute_one(protocol::attach_effect::Close& effect);
  void execute_one(protocol::attach_effect::DropHeld& effect);
  Result<Holding> make_holding(Connection& connection, const protocol::HoldFrame& frame);
  void tell_keeper(protocol::Bytes frame, std::span<const int> descriptors = {});
  std::optional<protocol::RefusalFrame> judge_peer(Connection& connection, std::uint32_t& pid);
  void close_connection(protocol::ConnectionId id);

  // server_clients.cpp
  Result<void> watch_client(ServedClient& client);
  void process_ended(ServedClient& client);
  void end_unproved();
  void fork_pipe_ended_of(ServedClient& client);
  void reclaim(ClientId id);
  void expel(ServedClient& client, Error why);
  ServedClient* find(ClientId id);
  Connection* find(protocol::ConnectionId id);

  ServerConfig config_;
  protocol::HelloFrame hello_;
  SegmentMap segment_;
  UnixListener listener_;
  FileDescriptor admin_socket_;
  MessageQueue keeper_;
  std::vector<HandedOverChannel> handed_over_;  // until adopt_clients

  std::unique_ptr<protocol::NodeMachine> machine_;
  StartReport start_report_;
  std::unique_ptr<protocol::AttachMachine> attach_;
  protocol::DecodeScratch scratch_;
  protocol::NodeEffects effects_;

  EpollLoop epoll_;
  EventFd wake_;  // questions and verified values
  AdminPorts ports_{wake_};
  std::unique_ptr<ValueVerifier> verifier_;
  std::vector<protocol::event::ValueVerified> verified_;

  std::vector<std::unique_ptr<ServedClient>> clients_;
  std::vector<ServedClient*> woken_;                  // have answers, doorbell not looked after yet
  std::vector<std::pair<ClientId, Error>> expelled_;  // closed after the round
  std::vector<ClientId> reclaimed_;                   // let go of after the round
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Holding> holdings_;
  FileDescriptor keeper_pipe_;   // came with the kHeld that is being executed
  std::optional<Holding> held_;  // what that kHeld is about
  std::uint64_t next_connection_ = 0;

  LoopCounters counters_;
  const unsigned cpus_;  // that we may run on, when we started
  AdaptiveSpin spin_;
  MonoNs now_ = 0;
  MonoNs server_started_ = 0;
  MonoNs events_looked_at_ = 0;
  MonoNs suppressed_reported_ = 0;
  MonoNs stop_deadline_ = kNever;      // set by kStop
  MonoNs unproved_deadline_ = kNever;  // until when clients without pidfd may come back
  // Held open so that there is always a place for one more connection, which is told that there is
  // none.
  FileDescriptor spare_;
  MonoNs listen_again_ = kNever;  // the listener is not watched until then
  std::optional<Error> keeper_lost_;
  protocol::UpgradeFrame upgrade_;  // the keeper's last word about it
  unsigned served_messages_ = 0;    // of this round
};

}  // namespace orlop::runtime
