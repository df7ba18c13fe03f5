// SPDX-License-Identifier: Apache-2.0
// ClientCore: the library's one thread. Its life:
//
//   attach_once (with backoff) -> serve_until_lost -> resume_until_back -> serve_until_lost ...
//                                        |                  |
//                                        +--- keeper gone --+--> retire -> attach_once
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "client/client_core.h"
#include "client/handshake.h"
#include "client/limits.h"
#include "platform/clock.h"
#include "platform/pause_point.h"
#include "platform/poll_wait.h"
#include "platform/random_bytes.h"

namespace orlop::detail {

using client::Attachment;
using client::ThreadState;

void ClientCore::run() {
  own_thread_.store(std::this_thread::get_id());
  client::on_library_thread = true;
  MonoNs backoff = client::kFirstRetry;
  while (!stop_.load()) {
    if (!attach_once()) {
      pause(backoff);
      backoff = std::min(2 * backoff, client::kLastRetry);
      continue;
    }
    backoff = client::kFirstRetry;
    do serve_until_lost();
    while (!stop_.load() && resume_until_back());
    if (!stop_.load()) retire();
  }
  // Nothing of this object is touched after it: it may be the last reference.
  const std::shared_ptr<ClientCore> last = [this] {
    const Lock lock(mutex_);
    return std::exchange(closing_, nullptr);
  }();
  if (last == nullptr) return;
  const MonoNs deadline = deadline_in({});
  end_writes(deadline);
  leave_node(deadline);
}

// Sleeps, but not through close().
void ClientCore::pause(MonoNs time) {
  static_cast<void>(stop_bell_.wait(monotonic_ns() + time));
}

void ClientCore::attach_failed(Error error) {
  const Lock lock(mutex_);
  attach_error_ = std::move(error);
  attach_tried_ = true;
  notify();
}

bool ClientCore::attach_once() {
  if (nonce_ == 0) {
    const auto nonce = random_id();
    if (!nonce) {
      attach_failed(nonce.error());
      return false;
    }
    nonce_ = *nonce;
  }
  auto attached = client::attach(socket_path_, nonce_, options_.name,
                                 segment::ChannelSizes{.ledger_cells = options_.ledger_cells},
                                 stop_bell_, client::duration_of(options_.call_budget));
  if (!attached) {
    attach_failed(std::move(attached.error()));
    return false;
  }
  PAUSE_POINT(kClientMapped);
  socket_ = std::move(attached->socket);
  publish(std::move(attached->attachment), attached->incarnation);
  return true;
}

void ClientCore::publish(std::unique_ptr<Attachment> attachment, Incarnation incarnation) {
  {
    const Lock lock(mutex_);
    attachment_ = std::move(attachment);
    session_broken_ = false;
    attach_tried_ = false;
    ++counters_.attaches;
    report_base_ = reported_;
    next_report_ = 0;
    incarnation_.store(incarnation.value);
    serving_.store(true);
    number_.store(++attachments_, std::memory_order_release);
    notify();
  }
  now_served();
}

void ClientCore::now_served() {
  if (stop_.load()) return;  // close() is waiting for us, only to detach
  reopen_namespaces();
  tell_ready(true);
}

void ClientCore::tell_ready(bool ready) {
  if (options_.on_ready) options_.on_ready(ready);
}

// Handles that users hold go on being valid: their namespaces get a row in the new segment. What
// the node refuses stays unresolved (reads miss, puts say why); what it does not answer is tried
// again.
void ClientCore::reopen_namespaces() {
  Lock lock(mutex_);
  unresolved_ = false;
  const std::vector<std::shared_ptr<NamespaceState>> all = namespaces_;
  for (const std::shared_ptr<NamespaceState>& ns : all) {
    // Short: meanwhile nobody watches the server.
    const MonoNs deadline = std::min(deadline_in({}), monotonic_ns() + client::kReopenWait);
    const auto resolved = resolve(lock, *ns, deadline);
    unresolved_ = !resolved && resolved.error().code == ErrorCode::kNoNode;
    if (unresolved_) return;
  }
}

bool ClientCore::keeper_gone() const {
  // The write end is held by the keeper alone and nothing is ever written: readable is end-of-file.
  const auto readable = wait_readable(attachment_->keeper_pipe.get(), 0);
  return !readable || *readable;
}

void ClientCore::serve_until_lost() {
  bool broken = false;
  pollfd watched[4] = {{socket_.get(), POLLIN, 0},
                       {attachment_->keeper_pipe.get(), POLLIN, 0},
                       {wake_.fd(), POLLIN, 0},
                       {stop_bell_.fd(), POLLIN, 0}};
  // The server sends nothing on this socket but its end (a refusal before it says why).
  while (watched[0].revents == 0 && watched[1].revents == 0 && !broken) {
    const MonoNs timeout = tick();
    const timespec time{static_cast<time_t>(timeout / kNsPerSecond),
                        static_cast<long>(timeout % kNsPerSecond)};
    const int ready = ::ppoll(watched, std::size(watched), &time, nullptr);
    CHECK(ready >= 0 || errno == EINTR, "ppoll on descriptors of ours");
    if (ready < 0) continue;
    if (stop_.load()) return;
    if (watched[2].revents != 0) wake_.drain();
    const Lock lock(mutex_);
    broken = session_broken_;
  }
  server_lost();
}

void ClientCore::server_lost() {
  {
    const Lock lock(mutex_);
    attachment_->guarded->session.lost();
    serving_.store(false);
    attachment_->client_doorbell.ring();  // the consumer must not wait for a dead server
    notify();
  }
  tell_ready(false);
  wait_for_hang_up();
}

// Until the server has closed its end: from then on it does not touch our channel. A server that is
// gone has closed it already.
void ClientCore::wait_for_hang_up() {
  if (!socket_) return;
  ::shutdown(socket_.get(), SHUT_WR);
  while (!stop_.load()) {
    const auto received = receive_message(socket_.get());
    if (!received || received->state == ReceiveState::kEnd) break;
    if (received->state == ReceiveState::kMessage) continue;
    if (keeper_gone()) break;
    static_cast<void>(wait_readable(socket_.get(), monotonic_ns() + client::kBusyTick));
  }
  socket_.reset();
}

// True: served again. False: this segment is gone, or close() was called.
bool ClientCore::resume_until_back() {
  const std::shared_ptr<Attachment> on = attachment_;
  const auto snapshot = [&] {
    const Lock lock(mutex_);
    if (on->guarded->session.state() == protocol::Session::State::kLost)
      consume(*on);  // what the old server answered still counts
    protocol::ResumeSnapshot taken = on->guarded->session.reset();
    lose(taken.lost);
    return taken;
  };
  MonoNs backoff = client::kFirstRetry;
  while (!stop_.load() && !keeper_gone()) {
    auto resumed = client::resume(socket_path_, *on, snapshot, stop_bell_);
    if (resumed) {
      socket_ = std::move(resumed->socket);
      {
        const Lock lock(mutex_);
        on->guarded->session.resumed();
        session_broken_ = false;
        ++counters_.resumes;
        incarnation_.store(resumed->incarnation.value);
        serving_.store(true);
        on->guarded->session.pump();
        ring_if_asleep(*on);
        notify();
      }
      now_served();
      return true;
    }
    attach_failed(std::move(resumed.error().error));
    if (resumed.error().gone) return false;
    socket_ = std::move(resumed.error().socket);
    wait_for_hang_up();
    pause(backoff);
    backoff = std::min(2 * backoff, client::kLastRetry / 10);
  }
  return false;
}

// The keeper is gone for good: no new plans here. Read plans stay valid on the old memory until
// they end; puts answer kNoNode.
void ClientCore::retire() {
  std::vector<std::shared_ptr<ThreadState>> threads;
  std::shared_ptr<Attachment> last;
  {
    const Lock lock(mutex_);
    number_.store(0, std::memory_order_release);
    serving_.store(false);
    incarnation_.store(0);
    counters_.aborted_late += attachment_->guarded->session.aborted_late();
    lose(attachment_->guarded->session.give_up());
    attachment_->client_doorbell.ring();
    last = std::move(attachment_);
    for (const std::shared_ptr<NamespaceState>& ns : namespaces_) ns->place.store(0);
    attach_tried_ = false;
    nonce_ = 0;
    socket_.reset();
    threads = threads_;
    notify();
  }
  // Threads that never read again would keep the old memory mapped.
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    if (thread->attachment != last) continue;
    thread->ledger.reset();
    thread->attachment.reset();
    thread->number = 0;
  }
  last.reset();
  for (const std::shared_ptr<client::MemoryUser>& user : memory_users()) user->memory_gone();
}

// What has to be done from time to time; how long to sleep until the next time.
MonoNs ClientCore::tick() {
  const MonoNs now = monotonic_ns();
  expire_handles(now);
  if (now >= next_tidy_) {
    tidy_ledgers();
    if (unresolved_) reopen_namespaces();
    next_tidy_ = now + client::kIdleTick;
  }
  if (now >= next_report_) {
    publish_report(now);
    next_report_ = now + client::kReportPeriod;
  }
  const MonoNs sleep = std::clamp(handle_ttl() / 4, kNsPerMs, client::kIdleTick);
  const Lock lock(mutex_);
  protocol::Session& session = attachment_->guarded->session;
  if (!consumer_active_) consume(*attachment_);
  // Not between two commits of a busy caller: each would have to wake us.
  idle_sleep_ = session.unanswered() == 0 && session.queued() == 0 && left_behind_ == left_seen_;
  left_seen_ = left_behind_;
  return idle_sleep_ ? sleep : std::min(sleep, client::kBusyTick);
}

MonoNs ClientCore::handle_ttl() const {
  return client::duration_of(options_.handle_ttl);
}

// A handle is stamped when it is first seen, so that get_start needs no clock.
void ClientCore::expire_handles(MonoNs now) {
  std::vector<std::shared_ptr<ThreadState>> threads;
  {
    const Lock lock(mutex_);
    threads = threads_;
  }
  const MonoNs ttl = handle_ttl();
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    if (thread->handles == 0) continue;
    for (ReadState* state = thread->open; state != nullptr; state = state->next) {
      if (state->phase.load(std::memory_order_relaxed) != ReadState::Phase::kHandle) continue;
      if (state->expires == 0) {
        state->expires = now + ttl;
      } else if (state->expires <= now) {
        unpin(*state, false);
        state->attachment.reset();
        state->phase.store(ReadState::Phase::kExpired, std::memory_order_relaxed);
      }
    }
  }
}

// Gives chunks without pins back to the pool, and forgets threads that have ended.
void ClientCore::tidy_ledgers() {
  std::vector<std::shared_ptr<ThreadState>> threads;
  {
    const Lock lock(mutex_);
    threads = threads_;
    client::Attachment::Guarded& guarded = *attachment_->guarded;
    chunk_scratch_.clear();
    guarded.orphans.reclaim(0, chunk_scratch_);
    guarded.pool.give_back(chunk_scratch_);
  }
  for (const std::shared_ptr<ThreadState>& thread : threads) {
    const std::lock_guard home(thread->mutex);
    const bool forget = thread->thread_gone && thread->open == nullptr;
    std::vector<std::uint32_t> empty;
    if (thread->ledger && thread->ledger->owned().size() > client::kKeptChunks)
      thread->ledger->reclaim(client::kKeptChunks, empty);
    if (!forget && empty.empty()) continue;
    const Lock lock(mutex_);
    if (!empty.empty()) thread->attachment->guarded->pool.give_back(empty);
    if (!forget) continue;
    past_reads_.add(thread->counters);
    thread->counters = {};
    std::erase(threads_, thread);
  }
}

}  // namespace orlop::detail
