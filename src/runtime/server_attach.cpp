// SPDX-License-Identifier: Apache-2.0
// The server's sockets: attach, resume, and the keeper.
#include <algorithm>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "platform/fork_guard.h"
#include "platform/pause_point.h"
#include "platform/process.h"
#include "runtime/server_loop.h"

namespace orlop::runtime {

namespace fx = protocol::attach_effect;
using protocol::ConnectionId;
using protocol::FrameKind;

namespace {

// Accepted in one go, so that a flood of connections cannot keep the rings waiting.
constexpr unsigned kAcceptsPerEvent = 16;
// Without descriptors the listener stays readable; looking at it without a pause would be a busy
// loop, and whoever waits there has 6 s (kHandshakeWait of the client).
constexpr MonoNs kListenLater = 50 * kNsPerMs;

FileDescriptor open_spare() {
  return FileDescriptor(::eventfd(0, EFD_CLOEXEC));
}

}  // namespace

std::uint64_t ServerLoop::tag(Watch watch, std::uint64_t number) {
  return (std::uint64_t{static_cast<std::uint32_t>(watch)} << 32) | (number & 0xffffffff);
}

Result<void> ServerLoop::dispatch(const EpollEvent& event) {
  const auto number = static_cast<std::uint32_t>(event.tag);
  switch (static_cast<Watch>(event.tag >> 32)) {
    case Watch::kDoorbell:
      break;  // the rings are looked at anyway; edge-triggered, so nothing to read
    case Watch::kWake:
      serve_threads();
      break;
    case Watch::kListener:
      accept_connections();
      break;
    case Watch::kKeeper:
      if (event.events & EPOLLOUT) {
        const auto flushed = keeper_.flush();
        if (!flushed) keeper_lost_ = flushed.error();
        watch_keeper();
      }
      return read_keeper();
    case Watch::kConnection:
      if (Connection* connection = find(ConnectionId{number})) read_connection(*connection);
      break;
    case Watch::kProcess:
      if (ServedClient* client = find(ClientId{number})) process_ended(*client);
      break;
    case Watch::kForkPipe:
      if (ServedClient* client = find(ClientId{number})) fork_pipe_ended_of(*client);
      break;
  }
  return {};
}

// ---- connections -----------------------------------------------------------------------------

void ServerLoop::accept_connections() {
  for (unsigned i = 0; i < kAcceptsPerEvent; ++i) {
    auto accepted = listener_.accept();
    std::optional<protocol::RefusalFrame> refuse;
    if (!accepted && accepted.error().code == ErrorCode::kLimit) {
      refuse = protocol::RefusalFrame{ErrorCode::kLimit, "the node: " + accepted.error().message};
      accepted = accept_to_refuse();
    }
    if (!accepted) {
      LOG_WARN("accept_failed", {"error", accepted.error().message});
      return listen_later();
    }
    if (!*accepted) return;
    add_connection(std::move(**accepted), std::move(refuse));
  }
}

// Out of descriptors: the spare one makes a place for a connection until it has been refused.
Result<std::optional<FileDescriptor>> ServerLoop::accept_to_refuse() {
  spare_.reset();
  return listener_.accept();
}

void ServerLoop::listen_later() {
  (void)epoll_.modify(listener_.fd(), 0, tag(Watch::kListener, 0));
  listen_again_ = now_ + kListenLater;
}

void ServerLoop::listen_again() {
  listen_again_ = kNever;
  if (!spare_) spare_ = open_spare();
  if (stop_deadline_ == kNever)
    (void)epoll_.modify(listener_.fd(), EPOLLIN, tag(Watch::kListener, 0));
}

void ServerLoop::add_connection(FileDescriptor socket,
                                std::optional<protocol::RefusalFrame> refuse) {
  auto connection = std::make_unique<Connection>();
  do {  // 32 bits go into an epoll tag
    next_connection_ = next_connection_ % 0xffffffff + 1;
  } while (find(ConnectionId{next_connection_}) != nullptr);
  connection->id = ConnectionId{next_connection_};
  connection->socket = std::move(socket);
  protocol::AttachMachine::Peer peer;
  peer.refuse = refuse ? std::move(refuse) : judge_peer(*connection, peer.pid);
  PAUSE_POINT(kServerAccepted);
  const ConnectionId id = connection->id;
  const auto added =
      epoll_.add(connection->socket.get(), EPOLLIN, tag(Watch::kConnection, id.value));
  if (!added) {
    LOG_WARN("connection_dropped", {"error", added.error().message});
    return;
  }
  connections_.push_back(std::move(connection));
  execute(attach_->connected(id, std::move(peer), now_));
}

// Who is there, by the kernel; and whether its death can be proved.
std::optional<protocol::RefusalFrame> ServerLoop::judge_peer(Connection& connection,
                                                             std::uint32_t& pid) {
  const auto peer = peer_credentials(connection.socket.get());
  if (!peer) return protocol::RefusalFrame{peer.error().code, peer.error().message};
  pid = static_cast<std::uint32_t>(peer->pid);
  const auto& allowed = config_.allowed_uids;
  if (peer->uid != 0 && peer->uid != ::geteuid() &&
      std::find(allowed.begin(), allowed.end(), peer->uid) == allowed.end()) {
    return protocol::RefusalFrame{ErrorCode::kRefused,
                                  "user " + std::to_string(peer->uid) +
                                      " may not use this node, which belongs to user " +
                                      std::to_string(::geteuid()) + "; add it to node.allow_uids"};
  }
  auto process = PidFd::of_peer(connection.socket.get());
  if (process) {
    connection.process = std::move(*process);
    return std::nullopt;
  }
  if (process.error().code != ErrorCode::kRefused || !config_.unsafe_no_pidfd) {
    return protocol::RefusalFrame{process.error().code, process.error().message};
  }
  // Stands in for the client's: it fires when the node is over anyway.
  auto stand_in = PidFd::of_process(::getppid());
  if (!stand_in) return protocol::RefusalFrame{stand_in.error().code, stand_in.error().message};
  connection.process = std::move(*stand_in);
  connection.unproved = true;
  pid = 0;
  return std::nullopt;
}

void ServerLoop::read_connection(Connection& connection) {
  const ConnectionId id = connection.id;
  auto received = receive_message(connection.socket.get(), protocol::kMaxFrameBytes,
                                  kMaxMessageDescriptors, LostDescriptors::kTell);
  if (!received || received->state == ReceiveState::kEnd) {
    execute(attach_->hung_up(id));
    close_connection(id);
    return;
  }
  if (received->state == ReceiveState::kWouldBlock) return;
  ReceivedMessage& message = received->message;
  if (message.descriptors_lost) {
    return execute(
        attach_->unreceived(id, {ErrorCode::kLimit, "the node: " + lost_descriptors_text()}));
  }
  const auto descriptors = static_cast<unsigned>(message.descriptors.size());
  if (descriptors == 1) connection.fork_pipe = std::move(message.descriptors[0]);
  execute(attach_->frame(id, message.bytes, descriptors, now_));
}

void ServerLoop::close_connection(ConnectionId id) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& one) { return one->id == id; });
  if (found == connections_.end()) return;
  (void)epoll_.remove((*found)->socket.get());
  connections_.erase(found);
  if (!spare_) spare_ = open_spare();
}

ServerLoop::Connection* ServerLoop::find(ConnectionId id) {
  for (const auto& connection : connections_) {
    if (connection->id == id) return connection.get();
  }
  return nullptr;
}

ServedClient* ServerLoop::find(ClientId id) {
  for (const auto& client : clients_) {
    if (client->id == id) return client.get();
  }
  return nullptr;
}

// ---- keeper ----------------------------------------------------------------------------------

void ServerLoop::tell_keeper(protocol::Bytes frame, std::span<const int> descriptors) {
  const auto sent = keeper_.send(std::move(frame), descriptors);
  if (!sent) keeper_lost_ = sent.error();
  if (keeper_.waiting()) watch_keeper();
}

void ServerLoop::watch_keeper() {
  const std::uint32_t events = EPOLLIN | (keeper_.waiting() ? EPOLLOUT : 0u);
  (void)epoll_.modify(keeper_.fd(), events, tag(Watch::kKeeper, 0));
}

Result<void> ServerLoop::read_keeper() {
  for (;;) {
    auto received = receive_message(keeper_.fd(), kMaxMessageBytes, kMaxMessageDescriptors,
                                    LostDescriptors::kTell);
    if (!received) return std::unexpected<Error>(received.error());
    if (received->state == ReceiveState::kWouldBlock) return {};
    if (received->state == ReceiveState::kEnd) {
      return fail(ErrorCode::kClosed, "the keeper has gone");
    }
    const auto done = keeper_frame(std::move(received->message));
    if (!done) return done;
  }
}

Result<void> ServerLoop::keeper_frame(ReceivedMessage message) {
  const auto kind = protocol::frame_kind(message.bytes);
  if (!kind) return std::unexpected<Error>(kind.error());
  if (*kind == FrameKind::kStop) {
    LOG_INFO("stopping", {"clients", attach_->attached()});
    PAUSE_POINT(kServerStopping);
    stop_deadline_ = now_ + kStopLimit;
    (void)epoll_.remove(listener_.fd());
    segment_.area.header().server_state.store(
        static_cast<std::uint32_t>(segment::ServerState::kStopping), std::memory_order_release);
    return {};
  }
  if (*kind == FrameKind::kPing) {
    tell_keeper(protocol::encode_bare(FrameKind::kPong));
    return {};
  }
  if (*kind == FrameKind::kUpgrade) {
    auto upgrade = protocol::decode<protocol::UpgradeFrame>(message.bytes);
    if (!upgrade) return std::unexpected<Error>(upgrade.error());
    upgrade_ = std::move(*upgrade);
    return {};
  }
  if (*kind != FrameKind::kHeld) {
    return fail(ErrorCode::kInvalidArgument, "the keeper sent a frame of an unexpected kind");
  }
  const auto frame = protocol::decode<protocol::HeldFrame>(message.bytes);
  if (!frame) return std::unexpected<Error>(frame.error());
  const auto found = std::find_if(holdings_.begin(), holdings_.end(),
                                  [&](const Holding& one) { return one.attach == frame->attach; });
  if (found == holdings_.end()) return {};
  PAUSE_POINT(kServerKeeperAcked);
  held_ = std::move(*found);
  holdings_.erase(found);
  if (message.descriptors_lost) {
    // The client's end of the keeper's pipe found no place: nobody may be welcomed without it.
    held_.reset();
    tell_keeper(protocol::encode(protocol::DropFrame{frame->client}));
    execute(attach_->hold_failed(frame->attach,
                                 {ErrorCode::kLimit, "the node: " + lost_descriptors_text()}));
    return {};
  }
  if (!message.descriptors.empty()) keeper_pipe_ = std::move(message.descriptors[0]);
  execute(attach_->held(*frame));
  held_.reset();
  keeper_pipe_.reset();
  return {};
}

// ---- effects of the attach machine -----------------------------------------------------------

void ServerLoop::execute(protocol::AttachEffects effects) {
  for (protocol::AttachEffect& effect : effects) {
    std::visit([this](auto& one) { execute_one(one); }, effect);
  }
}

void ServerLoop::execute_one(fx::CreateAndHold& effect) {
  Connection* connection = find(effect.connection);
  CHECK(connection != nullptr, "effects name live connections");
  auto holding = make_holding(*connection, effect.frame);
  if (!holding) return execute(attach_->hold_failed(effect.frame.attach, holding.error()));
  const auto descriptors = holding->files.descriptors();
  holdings_.push_back(std::move(*holding));
  PAUSE_POINT(kServerChannelMade);
  tell_keeper(protocol::encode(effect.frame), descriptors);
}

Result<ServerLoop::Holding> ServerLoop::make_holding(Connection& connection,
                                                     const protocol::HoldFrame& frame) {
  const auto geometry = segment::make_channel_geometry(frame.sizes);
  if (!geometry) return std::unexpected<Error>(geometry.error());
  // Also tells whether it is a pipe at all.
  const auto ended = fork_pipe_ended(connection.fork_pipe.get());
  if (!ended) return std::unexpected<Error>(ended.error());
  auto files =
      create_channel(*geometry, std::move(connection.process), std::move(connection.fork_pipe));
  if (!files) return std::unexpected<Error>(files.error());
  return Holding{frame.attach, std::move(*files), frame.sizes,
                 *geometry,    frame.pid,         connection.unproved};
}

void ServerLoop::execute_one(fx::AddClient& effect) {
  CHECK(held_.has_value(), "a client is added when the keeper has said that it holds it");
  auto client = std::make_unique<ServedClient>();
  client->id = effect.client;
  client->name = effect.name;
  client->pid = held_->pid;
  client->unproved = held_->unproved;
  client->connection = effect.connection;
  client->files = std::move(held_->files);
  client->view = segment::ChannelView::format(client->files.mapping.span(), held_->geometry,
                                              held_->sizes, effect.client);
  client->start_serving(0);
  const auto watched = watch_client(*client);
  if (!watched) {
    // Out of epoll watches: its death could not be noticed. Served, then closed at once.
    expelled_.emplace_back(client->id, watched.error());
  }
  machine_->step(protocol::event::ClientAttached{client->id, client->view, client->name}, now_,
                 effects_);
  clients_.push_back(std::move(client));
  settle();
  LOG_INFO("client_attached", {"client", effect.client}, {"pid", held_->pid},
           {"name", effect.name});
}

void ServerLoop::execute_one(fx::Welcome& effect) {
  const ServedClient* client = find(effect.client);
  const Connection* connection = find(effect.connection);
  CHECK(client != nullptr && connection != nullptr, "added a moment ago");
  protocol::WelcomeFrame frame;
  frame.segment = hello_.segment;
  frame.incarnation = hello_.incarnation;
  frame.client = effect.client;
  frame.sizes = client->view.header().sizes;
  frame.control_bytes = hello_.control_bytes;
  frame.value_bytes = hello_.value_bytes;
  const int descriptors[] = {segment_.control_read_only.get(),   segment_.value_file.fd(),
                             client->files.memory.fd(),          client->files.node_doorbell.fd(),
                             client->files.client_doorbell.fd(), keeper_pipe_.get()};
  // A peer that has gone, or does not read, shows itself by its hang-up.
  const auto sent = send_message(connection->socket.get(), protocol::encode(frame), descriptors);
  if (!sent || !*sent) {
    LOG_WARN("welcome_not_sent", {"client", effect.client},
             {"error", sent ? "socket is full" : sent.error().message});
  }
}

void ServerLoop::execute_one(fx::Resume& effect) {
  ServedClient* client = find(effect.frame.client);
  Connection* connection = find(effect.connection);
  CHECK(client != nullptr && connection != nullptr, "the machine knows who may resume");
  client->connection = effect.connection;
  connection->fork_pipe.reset();  // the keeper holds the same pipe already
  client->start_serving(effect.frame.ring_generation);
  machine_->step(protocol::event::ClientResumed{client->id, std::move(effect.frame.held)}, now_,
                 effects_);
  settle();
  (void)send_message(connection->socket.get(),
                     protocol::encode(protocol::ResumedFrame{hello_.incarnation}));
  LOG_INFO("client_resumed", {"client", client->id}, {"pid", client->pid}, {"name", client->name});
}

void ServerLoop::execute_one(fx::ClientLost& effect) {
  ServedClient* client = find(effect.client);
  if (client == nullptr || client->dead) return;
  client->stop_serving();
  client->connection = {};
  machine_->step(protocol::event::ClientLost{effect.client}, now_, effects_);
  settle();
  LOG_INFO("client_lost", {"client", effect.client}, {"name", client->name});
  if (client->unproved) process_ended(*client);
}

void ServerLoop::execute_one(fx::Forget& effect) {
  ServedClient* client = find(effect.client);
  if (client == nullptr || client->dead) return;
  LOG_INFO("client_forgotten", {"client", effect.client}, {"reason", "it never got its channel"});
  client->stop_serving();
  client->dead = true;
  machine_->step(protocol::event::ClientDied{effect.client, false}, now_, effects_);
  settle();
}

void ServerLoop::execute_one(fx::Refuse& effect) {
  const Connection* connection = find(effect.connection);
  if (connection == nullptr) return;
  ++counters_.refused[static_cast<std::size_t>(effect.frame.code)];
  LOG_WARN("refused", {"code", orlop::to_string(effect.frame.code)}, {"reason", effect.frame.text});
  (void)send_message(connection->socket.get(), protocol::encode(effect.frame));
  close_connection(effect.connection);
}

void ServerLoop::execute_one(fx::Close& effect) {
  close_connection(effect.connection);
}

void ServerLoop::execute_one(fx::DropHeld& effect) {
  CHECK(held_.has_value(), "what is dropped was held a moment ago");
  segment::ChannelView::over(held_->files.mapping.span(), held_->geometry)
      .mark_reclaimed(effect.client);
  tell_keeper(protocol::encode(protocol::DropFrame{effect.client}));
}

}  // namespace orlop::runtime
