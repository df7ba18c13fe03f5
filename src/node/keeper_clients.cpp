// SPDX-License-Identifier: Apache-2.0
// The link to the server, effects of KeeperMachine, and the store.
#include <signal.h>
#include <unistd.h>

#include <utility>
#include <variant>

#include "base/log.h"
#include "node/keeper_process.h"
#include "node/status_file.h"
#include "platform/clock.h"
#include "platform/fork_guard.h"
#include "platform/pause_point.h"
#include "platform/random_bytes.h"
#include "runtime/channel_files.h"

namespace orlop::node {

namespace fx = protocol::keeper_effect;
using protocol::FrameKind;

namespace {

constexpr MonoNs kWriteStatusAgain = kNsPerSecond;

}  // namespace

void Keeper::execute(const protocol::KeeperEffects& effects) {
  for (const protocol::KeeperEffect& effect : effects) {
    std::visit([this](const auto& one) { execute_one(one); }, effect);
  }
}

// ---- to the server ---------------------------------------------------------------------------

void Keeper::execute_one(const fx::HandOver&) {
  const auto id = random_id();
  if (!id) {
    LOG_ERROR("server_not_started", {"error", id.error().message});
    (void)server_.pidfd.send_signal(SIGKILL);
    return;
  }
  incarnation_ = Incarnation{*id};
  const auto order = machine_->begin_server(incarnation_);
  std::vector<int> descriptors = {segment_.control.fd(), segment_.value.fd(), listener_.fd()};
  if (admin_) descriptors.push_back(admin_.fd());
  send(protocol::encode(hello(order.hello)), descriptors);
  for (const protocol::HandOverFrame& frame : order.channels) {
    descriptors.clear();
    const KeptDescriptors& kept = channels_.at(frame.client).descriptors;
    for (std::size_t i = 0; i < runtime::kChannelFds; ++i) descriptors.push_back(kept[i].get());
    send(protocol::encode(frame), descriptors);
  }
  send(protocol::encode_bare(FrameKind::kHandOverEnd));
  handed_over_ = true;
  send(protocol::encode(life_->last_upgrade()));
}

// What the machine does not know.
protocol::HelloFrame Keeper::hello(protocol::HelloFrame frame) const {
  frame.admin = static_cast<bool>(admin_);
  frame.restarts = life_->restarts();
  frame.keeper_pid = static_cast<std::uint32_t>(::getpid());
  frame.keeper_started = started_;
  frame.control_bytes = segment_.control.bytes();
  frame.value_bytes = segment_.value.bytes();
  frame.last_end = last_end_;
  frame.touched_bytes = segment_.touched_bytes;
  frame.huge_bytes = segment_.huge_bytes;
  frame.placement = placement();
  return frame;
}

std::string Keeper::placement() const {
  std::string text;
  for (const auto& [node, bytes] : segment_.bytes_by_node)
    text += (text.empty() ? "" : " ") + std::to_string(node) + "=" + std::to_string(bytes);
  return text;
}

// A link that does not take a frame is over: the server is killed, its end is the event.
void Keeper::send(protocol::Bytes frame, std::span<const int> descriptors) {
  if (!link_) return;
  const auto sent = link_.send(std::move(frame), descriptors);
  if (!sent) {
    LOG_WARN("server_link_broken", {"error", sent.error().message});
    (void)server_.pidfd.send_signal(SIGKILL);
    return;
  }
  if (link_.waiting()) (void)epoll_.modify(link_.fd(), EPOLLIN | EPOLLOUT, kLink);
}

// ---- from the server -------------------------------------------------------------------------

void Keeper::link_event(std::uint32_t events) {
  if (events & EPOLLOUT) {
    (void)link_.flush();  // what is wrong with it shows when reading
    if (!link_.waiting()) (void)epoll_.modify(link_.fd(), EPOLLIN, kLink);
  }
  bool closed = false;
  const auto read = read_link(&closed);
  if (read && !closed) return;
  (void)epoll_.remove(link_.fd());
  execute(life_->link_ended(read.has_value(), monotonic_ns()));
}

// Everything that the socket holds. closed: the server's end is gone.
Result<void> Keeper::read_link(bool* closed) {
  for (;;) {
    auto received = receive_message(link_.fd(), kMaxMessageBytes, kMaxMessageDescriptors,
                                    LostDescriptors::kTell);
    if (!received) return std::unexpected<Error>(received.error());
    if (received->state == ReceiveState::kWouldBlock) return {};
    if (received->state == ReceiveState::kEnd) {
      *closed = true;
      return {};
    }
    const auto done = frame_from_server(std::move(received->message));
    if (!done) return done;
  }
}

Result<void> Keeper::frame_from_server(ReceivedMessage message) {
  const auto kind = protocol::frame_kind(message.bytes);
  if (!kind) return std::unexpected<Error>(kind.error());
  switch (*kind) {
    case FrameKind::kServing:
      serving();
      return {};
    case FrameKind::kPong:
      execute(life_->pong(monotonic_ns()));
      return {};
    case FrameKind::kHold:
      hold(std::move(message));
      return {};
    case FrameKind::kDrop: {
      const auto frame = protocol::decode<protocol::DropFrame>(message.bytes);
      if (!frame) return std::unexpected<Error>(frame.error());
      execute(machine_->drop(frame->client));
      return {};
    }
    default:
      return fail(ErrorCode::kInvalidArgument, "the server sent a frame of an unexpected kind");
  }
}

void Keeper::serving() {
  execute(machine_->serving());
  execute(life_->serving(monotonic_ns()));
  PAUSE_POINT(kKeeperServing);
  write_status();
  LOG_INFO("serving", {"socket", options_.socket}, {"admin", admin_.bound()},
           {"server_pid", server_.pid}, {"segment_id", segment_.id}, {"clients", channels_.size()});
  if (reloading_) return;  // settle_reload() tells
  tell_manager(std::string(std::exchange(told_ready_, true) ? "" : "READY=1\n") +
               "STATUS=serving at " + one_line(options_.socket));
}

// Again and again until it is written: a full disk is emptied some day, and people and exporters
// find the node by it.
void Keeper::write_status() {
  const auto written = write_status_file(
      {options_.socket, admin_.bound(), static_cast<std::uint32_t>(::getpid()),
       static_cast<std::uint32_t>(server_.pid), life_->restarts(), segment_.id, incarnation_});
  const bool again = write_status_at_ != kNever;
  write_status_at_ = written ? kNever : monotonic_ns() + kWriteStatusAgain;
  if (!written && !again) LOG_WARN("status_file_not_written", {"error", written.error().message});
  if (written && again) LOG_INFO("status_file_written", {"socket", options_.socket});
}

// ---- clients ---------------------------------------------------------------------------------

// It is the only one of a client's descriptors that it made itself. The store would pass over one
// whose open file it has, and the next keeper would miss it and start cold: so who sends one is
// refused, alone.
Result<void> Keeper::check_fork_pipe(const FileDescriptor& pipe) const {
  if (!store_.active()) return {};
  const auto is_pipe = fork_pipe_ended(pipe.get());  // whether it has ended is for the server
  if (!is_pipe) return std::unexpected<Error>(is_pipe.error());
  for (const auto& [client, kept] : channels_) {
    if (!same_open_file(kept.descriptors[runtime::kChannelFds - 1].get(), pipe.get())) continue;
    return fail(ErrorCode::kRefused,
                "client " + std::to_string(client.value) +
                    " of this process sent the same fork pipe, and the service manager keeps it "
                    "once: mount /proc and let the process be dumpable, so that liborlop can open "
                    "it anew");
  }
  return {};
}

void Keeper::hold(ReceivedMessage message) {
  const auto frame = protocol::decode<protocol::HoldFrame>(message.bytes);
  const auto refuse = [&](const Error& error) {
    send(protocol::encode(protocol::HeldFrame{frame->attach, {}, "the keeper: " + error.message}));
  };
  if (frame && message.descriptors_lost)
    return refuse({ErrorCode::kLimit, lost_descriptors_text()});
  if (!frame || message.descriptors.size() != runtime::kChannelFds) {
    LOG_ERROR("bad_hold_frame", {"descriptors", message.descriptors.size()});
    return;
  }
  const auto fit = check_fork_pipe(message.descriptors[runtime::kChannelFds - 1]);
  if (!fit) return refuse(fit.error());
  auto pipe = make_pipe();
  if (!pipe) return refuse(pipe.error());
  PAUSE_POINT(kKeeperHolding);
  const auto effects = machine_->hold(*frame);
  const auto client = machine_->last_client();
  const auto* refused = std::get_if<fx::Answer>(&effects.at(0));
  if (refused == nullptr || refused->frame.client) {
    KeptChannel kept;
    for (std::size_t i = 0; i < runtime::kChannelFds; ++i)
      kept.descriptors[i] = std::move(message.descriptors[i]);
    kept.descriptors[runtime::kChannelFds] = std::move(pipe->write_end);
    kept.pipe_read_end = std::move(pipe->read_end);
    channels_.emplace(client, std::move(kept));
  }
  execute(effects);
}

void Keeper::execute_one(const fx::Answer& effect) {
  if (!effect.frame.client) return send(protocol::encode(effect.frame));
  PAUSE_POINT(kKeeperHeld);
  const FileDescriptor read_end = std::move(channels_.at(effect.frame.client).pipe_read_end);
  const int descriptors[] = {read_end.get()};
  send(protocol::encode(effect.frame), descriptors);
}

void Keeper::execute_one(const fx::LetGo& effect) {
  PAUSE_POINT(kKeeperDropping);
  channels_.erase(effect.client);
  store_checked(store_.forget_client(effect.client));
}

// ---- the store -------------------------------------------------------------------------------

void Keeper::execute_one(const fx::Store& effect) {
  std::vector<int> descriptors;
  for (const FileDescriptor& one : channels_.at(effect.client).descriptors)
    descriptors.push_back(one.get());
  store_checked(store_.push_client(effect.client, descriptors, monotonic_ns()));
  watch_barrier();
}

void Keeper::execute_one(const fx::StoreServer& effect) {
  store_checked(store_.push_server(effect.server, server_.pidfd.fd(), monotonic_ns()));
  watch_barrier();
}

void Keeper::execute_one(const fx::ForgetServer& effect) {
  store_checked(store_.forget({protocol::stored_name_of_server(effect.server)}));
}

void Keeper::execute_one(const fx::WriteLedger&) {
  protocol::LedgerFrame ledger = machine_->ledger();
  ledger.restarts = life_->restarts();
  ledger.control_bytes = segment_.control.bytes();
  ledger.value_bytes = segment_.value.bytes();
  ledger.slab_bytes = segment_.geometry.slab_bytes;
  ledger.control_inode = inode_of(segment_.control.fd());
  ledger.value_inode = inode_of(segment_.value.fd());
  ledger.made_with = made_with_;
  ledger.touched_bytes = segment_.touched_bytes;
  ledger.huge_bytes = segment_.huge_bytes;
  ledger.placement = placement();
  store_.write(ledger);
}

// Without its store the node goes on as one without a service manager: the next keeper starts cold.
void Keeper::store_checked(const Result<void>& done) {
  watch_manager();
  if (done || !store_.active()) return;
  LOG_ERROR("store_given_up", {"error", done.error().message},
            {"effect", "a restart of this unit will lose the contents"});
  store_.give_up();
  watch_barrier();
  execute(machine_->store_lost());
}

void Keeper::barrier_ended() {
  if (store_.barrier_fd() < 0) return;
  (void)epoll_.remove(std::exchange(watched_barrier_, -1));
  const auto stored = store_.barrier_ended(monotonic_ns());
  if (!stored) return store_checked(std::unexpected<Error>(stored.error()));
  watch_barrier();
  for (const KeeperStore::Item& item : *stored) {
    const auto* client = std::get_if<ClientId>(&item);
    execute(client != nullptr ? machine_->stored(*client)
                              : machine_->server_stored(std::get<std::uint32_t>(item)));
  }
}

// One barrier at a time; a closed descriptor has left the epoll by itself.
void Keeper::watch_barrier() {
  watch_manager();
  if (store_.barrier_fd() == watched_barrier_) return;
  watched_barrier_ = store_.barrier_fd();
  if (watched_barrier_ < 0) return;
  const auto added = epoll_.add(watched_barrier_, EPOLLIN, kBarrier);
  if (!added) store_checked(added);
}

}  // namespace orlop::node
