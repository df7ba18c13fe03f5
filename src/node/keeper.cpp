// SPDX-License-Identifier: Apache-2.0
#include "node/keeper.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "node/admin_address.h"
#include "node/keeper_memory.h"
#include "node/status_file.h"
#include "platform/clock.h"
#include "platform/epoll_loop.h"
#include "platform/file_lock.h"
#include "platform/process.h"
#include "platform/random_bytes.h"
#include "platform/runtime_dir.h"
#include "platform/system_error.h"
#include "platform/unix_socket.h"
#include "protocol/attach/keeper_machine.h"
#include "runtime/channel_files.h"
#include "runtime/message_queue.h"
#include "runtime/segment_files.h"

namespace orlop::node {
namespace {

using protocol::FrameKind;

// SIGKILL is not refused, but a process in an uninterruptible call takes its time.
constexpr MonoNs kKillLimit = 60 * kNsPerSecond;
// From the end of its socket to the end of the server.
constexpr MonoNs kExitLimit = 2 * kNsPerSecond;

struct KeptChannel {
  std::array<FileDescriptor, runtime::kChannelFds> descriptors;
  FileDescriptor keeper_pipe;  // write end; only here
};

class Keeper {
 public:
  Keeper(const NodeOptions& options, std::vector<std::string> command)
      : options_(options), command_(std::move(command)) {}
  Result<void> prepare();
  Result<void> run();

 private:
  enum class State { kStarting, kServing, kWaiting, kStopping };
  enum Tag : std::uint64_t { kSignals, kLink, kServer };

  Result<void> watch_signals();
  Result<void> make_memory();

  Result<void> start_server();
  void start_failed(const Error& error);
  Result<void> hand_over();
  void server_ended();
  Result<void> plan_restart(const ExitStatus& status);
  Result<void> read_link(bool* closed);
  Result<void> frame_from_server(ReceivedMessage message);
  void hold(ReceivedMessage message);
  void serving();
  void link_event(std::uint32_t events);
  void stop();
  void send(protocol::Bytes frame, std::span<const int> descriptors = {});
  MonoNs next_deadline() const;

  const NodeOptions& options_;
  std::vector<std::string> command_;
  FileLock lock_;
  UnixListener listener_;
  AdminListener admin_;
  FileDescriptor signals_;
  EpollLoop epoll_;
  runtime::SegmentFiles segment_;
  std::optional<protocol::KeeperMachine> machine_;
  std::map<ClientId, KeptChannel> channels_;

  State state_ = State::kWaiting;
  bool ever_served_ = false;
  bool over_ = false;
  std::optional<Error> failed_;
  runtime::MessageQueue link_;
  Child server_;
  Incarnation incarnation_;
  std::uint32_t restarts_ = 0;
  std::string last_end_;
  MonoNs started_ = 0, served_since_ = 0, restart_at_ = 0;
  MonoNs kill_at_ = kNever;  // the server that is running
  MonoNs backoff_ = 0;
};

// ---- before the first server -----------------------------------------------------------------

Result<void> Keeper::prepare() {
  started_ = monotonic_ns();
  const SocketPlace place = explicit_socket_place(options_.socket);
  const SocketPlace usual = default_socket_place(RuntimeEnvironment::current());
  const auto folder = prepare_socket_folder(usual.socket_path == options_.socket ? usual : place);
  if (!folder) return folder;
  auto lock = FileLock::acquire(options_.socket);
  if (!lock) return std::unexpected<Error>(lock.error());
  lock_ = std::move(*lock);
  const auto address = parse_admin_address(options_.admin);
  if (!address) return std::unexpected<Error>(address.error());
  auto listener = UnixListener::listen(options_.socket, lock_);
  if (!listener) return std::unexpected<Error>(listener.error());
  listener_ = std::move(*listener);
  auto admin = AdminListener::listen(*address);
  if (!admin) return std::unexpected<Error>(admin.error());
  admin_ = std::move(*admin);
  const auto signals = watch_signals();
  if (!signals) return signals;
  return make_memory();
}

Result<void> Keeper::watch_signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&wanted, number);
  if (::pthread_sigmask(SIG_BLOCK, &wanted, nullptr) != 0) {
    return system_failure("pthread_sigmask", errno);
  }
  signals_ = FileDescriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return system_failure("signalfd", errno);
  auto epoll = EpollLoop::create();
  if (!epoll) return std::unexpected<Error>(epoll.error());
  epoll_ = std::move(*epoll);
  return epoll_.add(signals_.get(), EPOLLIN, kSignals);
}

Result<void> Keeper::make_memory() {
  auto files = make_segment(options_, signals_.get());
  if (!files) return std::unexpected<Error>(files.error());
  segment_ = std::move(*files);
  machine_.emplace(segment_.id);
  channels_.clear();  // of a segment before, if there was one: their clients see the pipe's end
  return {};
}

// ---- a server's life -------------------------------------------------------------------------

Result<void> Keeper::start_server() {
  if (!machine_->served()) {
    const auto formatted = runtime::format_again(segment_);
    if (!formatted) return formatted;
  }
  auto pair = make_socket_pair();
  if (!pair) return std::unexpected<Error>(pair.error());
  auto child = spawn(
      {"/proc/self/exe", command_, std::nullopt, {{pair->second.get(), kKeeperFdNumber}}, SIGKILL});
  if (!child) return std::unexpected<Error>(child.error());
  server_ = std::move(*child);
  link_ = runtime::MessageQueue(std::move(pair->first));
  state_ = State::kStarting;
  const auto watched = epoll_.add(server_.pidfd.fd(), EPOLLIN, kServer);
  if (!watched) return watched;
  const auto link_watched = epoll_.add(link_.fd(), EPOLLIN, kLink);
  if (!link_watched) return link_watched;
  LOG_INFO("server_started", {"pid", server_.pid}, {"restarts", restarts_});
  return hand_over();
}

// For want of processes, descriptors or memory. The memory we keep is worth trying again.
void Keeper::start_failed(const Error& error) {
  LOG_ERROR("server_not_started", {"error", error.message});
  if (link_) (void)epoll_.remove(link_.fd());
  if (server_.pidfd) {
    (void)epoll_.remove(server_.pidfd.fd());
    (void)server_.pidfd.send_signal(SIGKILL);
    (void)reap_child(server_.pidfd, monotonic_ns() + kKillLimit);
  }
  link_ = {};
  server_ = {};
  state_ = State::kWaiting;
  restart_at_ = monotonic_ns() + options_.backoff.most;
}

Result<void> Keeper::hand_over() {
  const auto id = random_id();
  if (!id) return std::unexpected<Error>(id.error());
  incarnation_ = Incarnation{*id};
  auto order = machine_->begin_server(incarnation_);
  order.hello.admin = static_cast<bool>(admin_);
  order.hello.restarts = restarts_;
  order.hello.keeper_pid = static_cast<std::uint32_t>(::getpid());
  order.hello.keeper_started = started_;
  order.hello.control_bytes = segment_.control.bytes();
  order.hello.value_bytes = segment_.value.bytes();
  order.hello.last_end = last_end_;
  order.hello.touched_bytes = segment_.touched_bytes;
  order.hello.huge_bytes = segment_.huge_bytes;
  for (const auto& [node, bytes] : segment_.bytes_by_node) {
    order.hello.placement += (order.hello.placement.empty() ? "" : " ") + std::to_string(node) +
                             "=" + std::to_string(bytes);
  }
  std::vector<int> descriptors = {segment_.control.fd(), segment_.value.fd(), listener_.fd()};
  if (admin_) descriptors.push_back(admin_.fd());
  send(protocol::encode(order.hello), descriptors);
  for (const protocol::HandOverFrame& frame : order.channels) {
    descriptors.clear();
    for (const FileDescriptor& one : channels_.at(frame.client).descriptors) {
      descriptors.push_back(one.get());
    }
    send(protocol::encode(frame), descriptors);
  }
  send(protocol::encode_bare(FrameKind::kHandOverEnd));
  return {};
}

// A link that does not take a frame is over: the server is killed, its end is the event.
void Keeper::send(protocol::Bytes frame, std::span<const int> descriptors) {
  const auto sent = link_.send(std::move(frame), descriptors);
  if (!sent) {
    LOG_WARN("server_link_broken", {"error", sent.error().message});
    (void)server_.pidfd.send_signal(SIGKILL);
    return;
  }
  if (link_.waiting()) (void)epoll_.modify(link_.fd(), EPOLLIN | EPOLLOUT, kLink);
}

// Everything that the socket holds. closed: the server's end is gone.
Result<void> Keeper::read_link(bool* closed) {
  for (;;) {
    auto received = receive_message(link_.fd());
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
    case FrameKind::kHold:
      hold(std::move(message));
      return {};
    case FrameKind::kDrop: {
      const auto frame = protocol::decode<protocol::DropFrame>(message.bytes);
      if (!frame) return std::unexpected<Error>(frame.error());
      if (machine_->drop(frame->client)) channels_.erase(frame->client);
      return {};
    }
    default:
      return fail(ErrorCode::kInvalidArgument, "the server sent a frame of an unexpected kind");
  }
}

void Keeper::hold(ReceivedMessage message) {
  const auto frame = protocol::decode<protocol::HoldFrame>(message.bytes);
  if (!frame || message.descriptors.size() != runtime::kChannelFds) {
    LOG_ERROR("bad_hold_frame", {"descriptors", message.descriptors.size()});
    return;
  }
  protocol::HeldFrame held = machine_->hold(*frame);
  if (!held.client) return send(protocol::encode(held));
  auto pipe = make_pipe();
  if (!pipe) {
    machine_->drop(held.client);
    return send(protocol::encode(protocol::HeldFrame{frame->attach, {}, pipe.error().message}));
  }
  KeptChannel kept;
  for (std::size_t i = 0; i < runtime::kChannelFds; ++i) {
    kept.descriptors[i] = std::move(message.descriptors[i]);
  }
  kept.keeper_pipe = std::move(pipe->write_end);
  channels_.emplace(held.client, std::move(kept));
  const int read_end[] = {pipe->read_end.get()};
  send(protocol::encode(held), read_end);
}

void Keeper::serving() {
  machine_->serving();
  ever_served_ = true;
  served_since_ = monotonic_ns();
  if (state_ == State::kStarting) state_ = State::kServing;
  const auto written = write_status_file(
      {options_.socket, admin_.bound(), static_cast<std::uint32_t>(::getpid()),
       static_cast<std::uint32_t>(server_.pid), restarts_, segment_.id, incarnation_});
  if (!written) LOG_WARN("status_file_not_written", {"error", written.error().message});
  LOG_INFO("serving", {"socket", options_.socket}, {"admin", admin_.bound()},
           {"server_pid", server_.pid}, {"segment_id", segment_.id}, {"clients", channels_.size()});
}

void Keeper::link_event(std::uint32_t events) {
  if (events & EPOLLOUT) {
    (void)link_.flush();  // what is wrong with it shows when reading
    if (!link_.waiting()) (void)epoll_.modify(link_.fd(), EPOLLIN, kLink);
  }
  bool closed = false;
  const auto read = read_link(&closed);
  if (read && !closed) return;
  // It cannot go on without us; its death is the event that counts. One that closed its end is
  // about to exit, with a status that says why: it gets a moment.
  (void)epoll_.remove(link_.fd());
  kill_at_ = monotonic_ns() + (read ? kExitLimit : 0);
}

// The process is dead: read what it still said, take its status, close its socket.
void Keeper::server_ended() {
  bool closed = false;
  const auto read = read_link(&closed);
  if (!read) LOG_WARN("server_link_unreadable", {"error", read.error().message});
  (void)epoll_.remove(link_.fd());
  (void)epoll_.remove(server_.pidfd.fd());
  const auto status = reap_child(server_.pidfd, monotonic_ns() + kKillLimit);
  link_ = {};
  server_ = {};
  kill_at_ = kNever;
  const ExitStatus ended = status && *status ? **status : ExitStatus{false, kExitFailed};
  last_end_ = to_string(ended);
  if (state_ == State::kStopping) {
    LOG_INFO("server_stopped", {"end", last_end_});
    over_ = true;
    return;
  }
  const auto planned = plan_restart(ended);
  if (!planned) failed_ = planned.error();
}

Result<void> Keeper::plan_restart(const ExitStatus& status) {
  const bool configuration = !status.by_signal && status.value == kExitBadConfiguration;
  if (configuration && !ever_served_) {
    return fail(ErrorCode::kInvalidArgument, "the server refused its configuration (see above)");
  }
  const MonoNs now = monotonic_ns();
  const bool was_good =
      state_ == State::kServing && now - served_since_ >= options_.backoff.forget_after;
  if (was_good) backoff_ = 0;
  LOG_WARN("server_ended", {"end", last_end_}, {"restart_in", format_duration_ns(backoff_)});
  state_ = State::kWaiting;
  restart_at_ = now + backoff_;
  backoff_ = backoff_ == 0 ? options_.backoff.first : std::min(backoff_ * 2, options_.backoff.most);
  ++restarts_;
  if (!status.by_signal && status.value == kExitSegmentCorrupt) {
    LOG_ERROR("segment_lost", {"segment_id", segment_.id}, {"clients", channels_.size()});
    channels_.clear();
    segment_ = {};
    return make_memory();
  }
  return {};
}

// ---- the loop --------------------------------------------------------------------------------

void Keeper::stop() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP) continue;  // a closed terminal is no reason
    LOG_INFO("stop_requested", {"signal", info.ssi_signo}, {"from_pid", info.ssi_pid});
    if (state_ == State::kWaiting) {
      over_ = true;
    } else if (state_ == State::kStopping) {
      (void)server_.pidfd.send_signal(SIGKILL);
    } else {
      state_ = State::kStopping;
      kill_at_ = monotonic_ns() + options_.stop_grace;
      send(protocol::encode_bare(FrameKind::kStop));
    }
  }
}

MonoNs Keeper::next_deadline() const {
  if (state_ == State::kWaiting) return restart_at_;
  return kill_at_;
}

Result<void> Keeper::run() {
  while (!over_ && !failed_) {
    const MonoNs now = monotonic_ns();
    if (state_ == State::kWaiting && now >= restart_at_) {
      const auto started = start_server();
      if (!started && !ever_served_) return started;
      if (!started) start_failed(started.error());
    }
    if (now >= kill_at_) {
      LOG_WARN("server_killed", {"pid", server_.pid}, {"stopping", state_ == State::kStopping});
      (void)server_.pidfd.send_signal(SIGKILL);
      kill_at_ = kNever;
    }
    const auto events = epoll_.wait(time_left(next_deadline(), monotonic_ns()));
    if (!events) return std::unexpected<Error>(events.error());
    bool ended = false;
    for (const EpollEvent& event : *events) {
      if (event.tag == kSignals) stop();
      if (event.tag == kServer) ended = true;
      if (event.tag == kLink && !ended) link_event(event.events);
    }
    if (ended) server_ended();
    log_report_suppressed();
  }
  remove_status_file(options_.socket);
  if (failed_) return std::unexpected<Error>(*failed_);
  return {};
}

}  // namespace

Result<void> run_keeper(const NodeOptions& options, std::vector<std::string> server_command) {
  Keeper keeper(options, std::move(server_command));
  const auto prepared = keeper.prepare();
  if (!prepared && prepared.error().code == ErrorCode::kClosed) return {};  // told to stop
  if (!prepared) return prepared;
  return keeper.run();
}

}  // namespace orlop::node
