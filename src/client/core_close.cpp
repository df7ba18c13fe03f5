// SPDX-License-Identifier: Apache-2.0
// ClientCore: birth and end of a client.
#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/block_signals.h"
#include "client/client_core.h"
#include "client/interruption.h"
#include "client/limits.h"
#include "copy/copy.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "platform/process.h"
#include "platform/runtime_dir.h"
#include "protocol/attach/frames.h"

namespace orlop::detail {

using client::Attachment;
using client::ThreadState;

namespace {

std::atomic<std::uint64_t> g_serials{0};

std::string socket_path_of(const ClientOptions& options) {
  if (!options.socket.empty()) return options.socket;
  return default_socket_place(RuntimeEnvironment::current()).socket_path;
}

}  // namespace

ClientCore::ClientCore(ClientOptions options)
    : options_(std::move(options)),
      socket_path_(socket_path_of(options_)),
      serial_(g_serials.fetch_add(1) + 1),
      spin_(runtime::AdaptiveSpin::for_cpus(cpu_count())) {
  options_.name = protocol::clean_client_name(
      options_.name.empty() ? ::program_invocation_short_name : options_.name);
}

std::shared_ptr<ClientCore> ClientCore::start(ClientOptions options) {
  auto core = std::make_shared<ClientCore>(std::move(options));
  // Without these it can never attach: it lives on as a client without a node and says why.
  const auto cannot = [&core](Error error) {
    core->attach_error_ = std::move(error);
    core->attach_tried_ = true;
    return core;
  };
  auto guard = ForkGuard::create();
  if (!guard) return cannot(guard.error());
  core->guard_ = *guard;
  auto wake = EventFd::create();
  if (!wake) return cannot(wake.error());
  core->wake_ = std::move(*wake);
  auto stop = EventFd::create();
  if (!stop) return cannot(stop.error());
  core->stop_bell_ = std::move(*stop);
  if (const auto& engine = environment_copy_engine(); !engine) return cannot(engine.error());
  try {
    const BlockSignals blocked;
    core->thread_ = std::thread([raw = core.get()] {
      ::pthread_setname_np(::pthread_self(), "orlop-client");
      raw->run();
    });
    core->own_thread_.store(core->thread_.get_id());
  } catch (const std::system_error& error) {
    return cannot({ErrorCode::kSystem, std::string("starting the library's thread failed: ") +
                                           error.what() + "; raise the limit of threads"});
  }
  return core;
}

// Still joinable only after a close() inside on_ready that nobody else followed. The thread then is
// the caller, or it has let go of its own reference, which is the last thing it does.
ClientCore::~ClientCore() {
  if (!thread_.joinable()) return;
  if (std::this_thread::get_id() == own_thread_.load()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

bool ClientCore::wait_ready(Milliseconds timeout) {
  const MonoNs deadline = deadline_in(timeout);
  Lock lock(mutex_);
  while (!ready() && !closed_.load() && monotonic_ns() < deadline) {
    ++waiting_;
    const MonoNs slice = client::WaitInterruption::slice(deadline);
    progress_.wait_for(
        lock, std::chrono::nanoseconds(std::min(time_left(slice, monotonic_ns()), kNsPerSecond)));
    --waiting_;
    if (client::WaitInterruption::asked_to_stop(lock)) break;
  }
  return ready();
}

Error ClientCore::last_attach_error() {
  const Lock lock(mutex_);
  return attach_error_;
}

std::uint64_t ClientCore::segment_id() {
  const Lock lock(mutex_);
  return attachment_ == nullptr ? 0 : attachment_->segment.value;
}

void ClientCore::close() {
  const MonoNs deadline = deadline_in({});
  // Inside an on_ready, ours or another client's: a thread cannot wait for its own end, and two
  // that waited for each other's would never end. The client's own thread does the rest.
  const bool by_own_thread = client::on_library_thread && own_thread_.load() != std::thread::id();
  bool first = false;
  {
    const Lock lock(mutex_);
    first = !closed_.exchange(true);
    if (first && by_own_thread) closing_ = shared_from_this();
    if (first) notify();
  }
  if (by_own_thread) {
    end_thread();
    return;
  }
  const std::lock_guard one_at_a_time(close_mutex_);
  if (first) end_writes(deadline);
  end_thread();
  if (thread_.joinable()) thread_.join();
  if (first) leave_node(deadline);
}

void ClientCore::end_thread() {
  stop_.store(true);
  if (stop_bell_) stop_bell_.ring();
}

void ClientCore::end_writes(MonoNs deadline) {
  for (const std::shared_ptr<client::MemoryUser>& user : memory_users())
    user->client_closes(deadline);
  wait_for_copies();
  Lock lock(mutex_);
  if (attachment_ != nullptr) end_all_puts();
  wait_for_commits(lock, deadline);
}

bool ClientCore::add_memory_user(const std::shared_ptr<client::MemoryUser>& user) {
  // The lock under which close() begins: either it finds the user, or we see that it was called.
  const Lock lock(mutex_);
  if (closed_.load()) return false;
  std::erase_if(memory_users_, [](const auto& known) { return known.expired(); });
  memory_users_.push_back(user);
  return true;
}

std::vector<std::shared_ptr<client::MemoryUser>> ClientCore::memory_users() {
  std::vector<std::shared_ptr<client::MemoryUser>> users;
  const Lock lock(mutex_);
  for (const std::weak_ptr<client::MemoryUser>& known : memory_users_)
    if (auto user = known.lock()) users.push_back(std::move(user));
  return users;
}

std::shared_ptr<Attachment> ClientCore::attachment() {
  const Lock lock(mutex_);
  return attachment_;
}

// closed_ is set, so no copy begins any more (copy_gate.h), and those that run have an end.
void ClientCore::wait_for_copies() {
  while (copy_runs()) std::this_thread::sleep_for(client::kCopyPoll);
}

bool ClientCore::copy_runs() {
  std::vector<std::shared_ptr<ThreadState>> threads;
  {
    const Lock lock(mutex_);
    for (const PutPlanState* plan = open_puts_; plan != nullptr; plan = plan->next)
      if (plan->gate.busy()) return true;
    threads = threads_;
  }
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    for (const ReadState* state = thread->open; state != nullptr; state = state->next)
      if (state->gate.busy()) return true;
  }
  return false;
}

// The library's thread has ended, or is the caller.
void ClientCore::leave_node(MonoNs deadline) {
  end_all_reads();
  publish_report(monotonic_ns());

  Waiter detached;
  std::shared_ptr<Attachment> last;  // unmapped after the lock
  Lock lock(mutex_);
  if (attachment_ == nullptr) return;
  detach(lock, deadline, detached);
  number_.store(0, std::memory_order_release);
  serving_.store(false);
  counters_.aborted_late += attachment_->guarded->session.aborted_late();
  lose(attachment_->guarded->session.give_up());
  attachment_->client_doorbell.ring();
  last = std::move(attachment_);
  lock.unlock();
  socket_.reset();
}

// Plans under a registered copy go on until it is reported; the others end here.
void ClientCore::end_all_reads() {
  std::vector<std::shared_ptr<ThreadState>> threads;
  {
    const Lock lock(mutex_);
    threads = threads_;
  }
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    for (ReadState* state = thread->open; state != nullptr; state = state->next) {
      const ReadState::Phase phase = state->phase.load(std::memory_order_relaxed);
      if (phase == ReadState::Phase::kDropped) continue;
      if (state->life.end()) unpin(*state, phase == ReadState::Phase::kPlan);
      state->phase.store(ReadState::Phase::kClosed, std::memory_order_relaxed);
    }
    thread->ledger.reset();
    thread->attachment.reset();
    thread->number = 0;
  }
}

void ClientCore::end_all_puts() {
  protocol::Session& session = attachment_->guarded->session;
  for (PutPlanState* plan = open_puts_; plan != nullptr;) {
    PutPlanState* const next = plan->next;
    protocol::Session& own = plan->attachment->guarded->session;
    own.abort(plan->put);
    if (plan->over.load() == PutPlanState::Over::kNo) plan->over.store(PutPlanState::Over::kClosed);
    if (!own.holds(plan->put)) end_put(*plan, PutPlanState::Over::kClosed);
    plan = next;
  }
  session.pump();
  ring_if_asleep(*attachment_);
}

void ClientCore::wait_for_commits(Lock& lock, MonoNs deadline) {
  while (!commits_.empty() && monotonic_ns() < deadline) wait_progress(lock, deadline);
}

// Only when nothing of ours is left in the memory; else the node keeps it until our process ends.
void ClientCore::detach(Lock& lock, MonoNs deadline, Waiter& waiter) {
  protocol::Session& session = attachment_->guarded->session;
  if (!copies_.empty() || !stuck_puts_.empty() || stuck_reads_ > 0 ||
      session.state() != protocol::Session::State::kAttached)
    return;
  PAUSE_POINT(kClientDetaching);
  session.detach(reinterpret_cast<std::uint64_t>(&waiter));
  session.pump();
  ring_if_asleep(*attachment_);
  while (!waiter.done && !waiter.lost && !session_broken_ && monotonic_ns() < deadline)
    wait_progress(lock, deadline);
}

}  // namespace orlop::detail
