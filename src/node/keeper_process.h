// SPDX-License-Identifier: Apache-2.0
// The keeper's process: the driver of ServerLife and KeeperMachine. Only run_keeper() makes one
// (keeper.h has the contract). Split by what it drives:
//   keeper.cpp          before the first server; the loop
//   keeper_servers.cpp  effects of ServerLife: servers, upgrades
//   keeper_clients.cpp  the link to the server, effects of KeeperMachine, the store
// Thread: one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "node/admin_address.h"
#include "node/keeper.h"
#include "node/keeper_store.h"
#include "node/program_check.h"
#include "node/program_file.h"
#include "node/take_over.h"
#include "platform/epoll_loop.h"
#include "platform/file_lock.h"
#include "platform/process.h"
#include "platform/unix_socket.h"
#include "protocol/attach/keeper_machine.h"
#include "protocol/attach/server_life.h"
#include "runtime/message_queue.h"

namespace orlop::node {

class Keeper {
 public:
  Keeper(const NodeOptions& options, KeeperCommands commands);
  Result<void> prepare();
  Result<void> run();

 private:
  // What a server is started from. The candidate's are those that were checked.
  struct Source {
    ProgramFile program;
    FileDescriptor configuration;  // none: there is no file
  };

  enum Tag : std::uint64_t { kSignals, kLink, kServer, kCheck, kManager, kBarrier };

  // keeper.cpp
  Result<void> open_sockets();
  Result<void> watch_signals();
  Result<void> find_manager();
  Result<void> take_over_or_begin();
  bool take_over_stored();
  Result<void> make_memory();
  void read_signals();
  bool stop_asked();
  Result<void> wait_and_dispatch();
  void dispatch(const EpollEvent& event);
  void pet_watchdog();
  MonoNs next_deadline() const;
  void tell_manager(std::string text);
  void busy(const std::string& doing);
  void watch_manager();

  // keeper_servers.cpp
  void execute(const protocol::LifeEffects& effects);
  void execute_one(const protocol::life_effect::Start& effect);
  void execute_one(const protocol::life_effect::Stop& effect);
  void execute_one(const protocol::life_effect::Kill& effect);
  void execute_one(const protocol::life_effect::Ping& effect);
  void execute_one(const protocol::life_effect::Check& effect);
  void execute_one(const protocol::life_effect::EndCheck& effect);
  void execute_one(const protocol::life_effect::Adopt& effect);
  void execute_one(const protocol::life_effect::Discard& effect);
  void execute_one(const protocol::life_effect::NewMemory& effect);
  void execute_one(const protocol::life_effect::Report& effect);
  void execute_one(const protocol::life_effect::Over& effect);
  Result<void> start_server(const Source& source);
  void bury_half_started();
  void server_ended();
  Result<void> begin_check();
  void check_ended();
  protocol::CheckResult judge(const Result<protocol::Preflight>& answer) const;
  void settle_reload();

  // keeper_clients.cpp
  void execute(const protocol::KeeperEffects& effects);
  void execute_one(const protocol::keeper_effect::Store& effect);
  void execute_one(const protocol::keeper_effect::StoreServer& effect);
  void execute_one(const protocol::keeper_effect::WriteLedger& effect);
  void execute_one(const protocol::keeper_effect::HandOver& effect);
  void execute_one(const protocol::keeper_effect::Answer& effect);
  void execute_one(const protocol::keeper_effect::LetGo& effect);
  void execute_one(const protocol::keeper_effect::ForgetServer& effect);
  protocol::HelloFrame hello(protocol::HelloFrame frame) const;
  std::string placement() const;
  void send(protocol::Bytes frame, std::span<const int> descriptors = {});
  Result<void> read_link(bool* closed);
  Result<void> frame_from_server(ReceivedMessage message);
  Result<void> check_fork_pipe(const FileDescriptor& pipe) const;
  void hold(ReceivedMessage message);
  void serving();
  void write_status();
  void link_event(std::uint32_t events);
  void store_checked(const Result<void>& done);
  void barrier_ended();
  void watch_barrier();

  struct KeptChannel {
    KeptDescriptors descriptors;   // last: write end of the client's keeper pipe; only here
    FileDescriptor pipe_read_end;  // until it is sent to the server
  };

  const NodeOptions& options_;
  KeeperCommands commands_;
  std::string program_path_;
  Source good_, candidate_;
  std::optional<ProgramCheck> check_;

  FileLock lock_;
  UnixListener listener_;
  AdminListener admin_;
  FileDescriptor signals_;
  EpollLoop epoll_;
  ServiceManager manager_;
  KeeperStore store_{manager_};
  runtime::SegmentFiles segment_;
  std::string made_with_;  // making_of() when it was made
  std::optional<protocol::KeeperMachine> machine_;
  std::map<ClientId, KeptChannel> channels_;
  std::optional<protocol::ServerLife> life_;

  bool over_ = false;
  std::optional<Error> failed_;
  runtime::MessageQueue link_;
  Child server_;
  Incarnation incarnation_;
  std::string last_end_;
  MonoNs started_ = 0;
  MonoNs pet_at_ = kNever;
  MonoNs write_status_at_ = kNever;  // the status file could not be written
  bool told_ready_ = false, reloading_ = false;
  bool handed_over_ = false;   // the server was given the memory
  bool reload_waits_ = false;  // a SIGHUP that came while memory was made
  int watched_barrier_ = -1;
};

}  // namespace orlop::node
