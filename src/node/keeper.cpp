// SPDX-License-Identifier: Apache-2.0
#include "node/keeper.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "node/keeper_memory.h"
#include "node/keeper_process.h"
#include "node/status_file.h"
#include "node/version.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "platform/runtime_dir.h"
#include "platform/system_error.h"
#include "runtime/segment_files.h"

namespace orlop::node {
namespace {

// What a service manager grants beyond its own limit each time we say that we are busy.
constexpr const char* kExtendTimeout = "EXTEND_TIMEOUT_USEC=60000000";

// The server of a keeper that was killed dies with it, but not in the same moment, and until then
// it listens where we want to. We have the lock, so nobody else's keeper does.
constexpr MonoNs kDyingServerLimit = 2 * kNsPerSecond;
constexpr std::chrono::milliseconds kDyingServerLook{5};

template <class Listen>
auto once_free(Listen listen) {
  const MonoNs give_up = monotonic_ns() + kDyingServerLimit;
  for (;;) {
    auto listening = listen();
    const bool busy = !listening && listening.error().code == ErrorCode::kAddressInUse;
    if (!busy || monotonic_ns() >= give_up) return listening;
    std::this_thread::sleep_for(kDyingServerLook);
  }
}

protocol::LifeLimits limits_of(const NodeOptions& options) {
  protocol::LifeLimits limits;
  limits.backoff_first = options.backoff.first;
  limits.backoff_most = options.backoff.most;
  limits.forget_after = options.backoff.forget_after;
  limits.stop_grace = options.stop_grace;
  limits.start_limit = options.start_limit;
  limits.hang_limit = options.hang_limit;
  return limits;
}

}  // namespace

Keeper::Keeper(const NodeOptions& options, KeeperCommands commands)
    : options_(options), commands_(std::move(commands)) {}

// ---- before the first server -----------------------------------------------------------------

Result<void> Keeper::prepare() {
  started_ = monotonic_ns();
  program_path_ = path_of_running_program();
  auto program = open_running_program();
  if (!program) return std::unexpected<Error>(program.error());
  good_ = {std::move(*program), std::move(commands_.configuration)};
  for (auto step : {&Keeper::open_sockets, &Keeper::watch_signals, &Keeper::find_manager,
                    &Keeper::take_over_or_begin}) {
    const auto done = (this->*step)();
    if (!done) return done;
  }
  return {};
}

Result<void> Keeper::open_sockets() {
  const SocketPlace place = explicit_socket_place(options_.socket);
  const SocketPlace usual = default_socket_place(RuntimeEnvironment::current());
  const auto folder = prepare_socket_folder(usual.socket_path == options_.socket ? usual : place);
  if (!folder) return folder;
  auto lock = FileLock::acquire(options_.socket);
  if (!lock) return std::unexpected<Error>(lock.error());
  lock_ = std::move(*lock);
  const auto address = parse_admin_address(options_.admin);
  if (!address) return std::unexpected<Error>(address.error());
  auto listener = once_free([&] { return UnixListener::listen(options_.socket, lock_); });
  if (!listener) return std::unexpected<Error>(listener.error());
  listener_ = std::move(*listener);
  auto admin = once_free([&] { return AdminListener::listen(*address); });
  if (!admin) return std::unexpected<Error>(admin.error());
  admin_ = std::move(*admin);
  return {};
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

Result<void> Keeper::find_manager() {
  auto manager = ServiceManager::from_environment();
  if (!manager) return std::unexpected<Error>(manager.error());
  manager_ = std::move(*manager);
  if (!manager_.present()) return {};
  if (manager_.watchdog()) pet_at_ = 0;
  return epoll_.add(manager_.fd(), 0, kManager);
}

Result<void> Keeper::take_over_or_begin() {
  if (!take_over_stored()) {
    const auto made = make_memory();
    if (!made) return made;
    life_.emplace(limits_of(options_), protocol::ServerLife::Before{}, kVersion);
  }
  return {};
}

// A node of a keeper before us goes on, or everything of it is let go of.
bool Keeper::take_over_stored() {
  auto stored = manager_.take_stored();
  std::vector<std::string> names;
  for (const StoredDescriptor& one : stored) {
    if (protocol::is_stored_name(one.name)) names.push_back(one.name);
  }
  Result<TakenOver> taken = fail(ErrorCode::kNoNode, "nothing is stored");
  if (manager_.present()) taken = take_over(std::move(stored), options_);
  if (!taken) {
    if (taken.error().code != ErrorCode::kNoNode)
      LOG_ERROR("cold_start", {"reason", taken.error().message}, {"descriptors", names.size()});
    store_checked(store_.forget(names));
    return false;
  }
  segment_ = std::move(taken->segment);
  made_with_ = taken->ledger.made_with;
  machine_.emplace(taken->ledger, taken->adoption);
  for (auto& [client, kept] : taken->channels)
    channels_.emplace(client, KeptChannel{std::move(kept), {}});
  store_.go_on(std::move(taken->ledger_file), std::move(taken->ledger_memory));
  // The end of the server before counts as one more restart.
  life_.emplace(limits_of(options_),
                protocol::ServerLife::Before{taken->ledger.restarts + 1, taken->ledger.served},
                kVersion);
  execute_one(protocol::keeper_effect::WriteLedger{});
  store_checked(store_.forget(taken->adoption.leftover));
  last_end_ = "its keeper ended";
  LOG_INFO("segment_taken_over", {"segment_id", segment_.id}, {"clients", channels_.size()});
  return true;
}

Result<void> Keeper::make_memory() {
  auto files = make_segment(options_, {signals_.get(), [this] { return stop_asked(); },
                                       [this](const auto& doing) { busy(doing); }});
  if (!files) return std::unexpected<Error>(files.error());
  segment_ = std::move(*files);
  made_with_ = making_of(options_);
  channels_.clear();  // of a segment before, if there was one: their clients see the pipe's end
  const auto stored = store_.begin(segment_);
  if (!stored) LOG_ERROR("store_not_used", {"error", stored.error().message});
  machine_.emplace(segment_.id, store_.active());
  return {};
}

// ---- the service manager ---------------------------------------------------------------------

// What is wrong with its socket shows at the next push into the store; words are worth no more.
void Keeper::tell_manager(std::string text) {
  (void)manager_.notify(std::move(text));
  watch_manager();
}

void Keeper::watch_manager() {
  if (manager_.present())
    (void)epoll_.modify(manager_.fd(), manager_.waiting() ? EPOLLOUT : 0u, kManager);
}

// Making memory takes its time, and the loop does not run meanwhile.
void Keeper::busy(const std::string& doing) {
  tell_manager("STATUS=" + one_line(doing) + "\n" + kExtendTimeout);
  pet_watchdog();
}

void Keeper::pet_watchdog() {
  const MonoNs now = monotonic_ns();
  if (now < pet_at_) return;
  // A hung server is killed by us (ServerLife); the manager's watchdog is for this process.
  tell_manager("WATCHDOG=1");
  pet_at_ = now + *manager_.watchdog() / 3;
}

// ---- the loop --------------------------------------------------------------------------------

void Keeper::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const MonoNs now = monotonic_ns();
    if (info.ssi_signo == SIGHUP) {
      if (info.ssi_code == SI_KERNEL) continue;  // a closed terminal is no reason
      LOG_INFO("upgrade_requested", {"from_pid", info.ssi_pid}, {"program", program_path_});
      PAUSE_POINT(kKeeperReloading);
      execute(life_->reload_signal(now));
      continue;
    }
    LOG_INFO("stop_requested", {"signal", info.ssi_signo}, {"from_pid", info.ssi_pid});
    tell_manager("STOPPING=1");
    execute(life_->stop_signal(now));
  }
}

// While memory is made. A reload cannot be carried out then, and is no reason to end.
bool Keeper::stop_asked() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGHUP) {
      LOG_INFO("stop_requested", {"signal", info.ssi_signo}, {"from_pid", info.ssi_pid});
      tell_manager("STOPPING=1");
      return true;
    }
    if (info.ssi_code == SI_KERNEL) continue;
    LOG_INFO("upgrade_requested", {"from_pid", info.ssi_pid}, {"program", program_path_},
             {"carried_out", "when the memory is made"});
    reload_waits_ = true;
  }
  return false;
}

MonoNs Keeper::next_deadline() const {
  return std::min({life_->next_deadline(), pet_at_, store_.deadline(), write_status_at_});
}

void Keeper::dispatch(const EpollEvent& event) {
  switch (static_cast<Tag>(event.tag)) {
    case kSignals:
      return read_signals();
    case kLink:
      if (link_) link_event(event.events);
      return;
    case kServer:
      return;  // last, see wait_and_dispatch()
    case kCheck:
      return check_ended();
    case kManager:
      // Without its other end it would report itself for ever; what is wrong shows when sending.
      if (event.events & (EPOLLHUP | EPOLLERR)) (void)epoll_.remove(manager_.fd());
      return store_checked(manager_.flush());
    case kBarrier:
      return barrier_ended();
  }
}

Result<void> Keeper::wait_and_dispatch() {
  const auto events = epoll_.wait(time_left(next_deadline(), monotonic_ns()));
  if (!events) return std::unexpected<Error>(events.error());
  // The events of one wait are about one server: what it said counts before its end does, and after
  // its end another one may have started.
  bool ended = false;
  for (const EpollEvent& event : *events) {
    if (event.tag == kServer) ended = true;
    dispatch(event);
  }
  if (ended && server_.pidfd && server_.pidfd.has_exited()) server_ended();
  return {};
}

Result<void> Keeper::run() {
  PAUSE_POINT(kKeeperStarting);
  execute(life_->begin(monotonic_ns()));
  while (!over_ && !failed_) {
    if (std::exchange(reload_waits_, false)) execute(life_->reload_signal(monotonic_ns()));
    const auto done = wait_and_dispatch();
    if (!done) return done;
    const MonoNs now = monotonic_ns();
    if (now >= store_.deadline()) {
      store_checked(fail(ErrorCode::kDeadline, "the service manager did not answer in " +
                                                   format_duration_ns(kStoreLimit)));
    }
    if (!over_ && !failed_) execute(life_->tick(now));
    if (now >= write_status_at_ && !over_) write_status();
    pet_watchdog();
    log_report_suppressed();
  }
  remove_status_file(options_.socket);
  if (failed_) return std::unexpected<Error>(*failed_);
  return {};
}

Result<void> run_keeper(const NodeOptions& options, KeeperCommands commands) {
  Keeper keeper(options, std::move(commands));
  const auto prepared = keeper.prepare();
  if (!prepared && prepared.error().code == ErrorCode::kClosed) return {};  // told to stop
  if (!prepared) return prepared;
  return keeper.run();
}

}  // namespace orlop::node
