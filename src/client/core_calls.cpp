// SPDX-License-Identifier: Apache-2.0
// ClientCore: asking the node and waiting for its answers.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/check.h"
#include "client/arguments.h"
#include "client/client_core.h"
#include "client/interruption.h"
#include "client/limits.h"
#include "platform/clock.h"
#include "platform/pause_point.h"

namespace orlop::detail {

using client::Attachment;
using client::WaitInterruption;
using protocol::Answer;
using protocol::Post;
using protocol::Posted;
using protocol::RequestCode;

namespace {

std::chrono::steady_clock::time_point time_point_of(MonoNs deadline) {
  // An hour at most: kNever must not overflow the clock's arithmetic; callers look again.
  const MonoNs left = std::min(time_left(deadline, monotonic_ns()), 3'600 * kNsPerSecond);
  return std::chrono::steady_clock::now() + std::chrono::nanoseconds(left);
}

}  // namespace

MonoNs ClientCore::deadline_in(std::optional<Milliseconds> wanted) const {
  return monotonic_ns() + client::duration_of(wanted.value_or(options_.call_budget));
}

void ClientCore::ring_if_asleep(Attachment& attachment) {
  PAUSE_POINT(kClientDoorbell);
  if (attachment.guarded->session.must_ring()) attachment.node_doorbell.ring();
}

// Takes every answer that is there, for whoever waits for it.
void ClientCore::consume(Attachment& attachment) {
  if (session_broken_) return;
  protocol::Session& session = attachment.guarded->session;
  bool delivered = false;
  for (;;) {
    const protocol::Session::Next next = session.next(&answer_scratch_);
    if (next == protocol::Session::Next::kNone) break;
    if (next == protocol::Session::Next::kBroken) {
      session_broken_ = true;
      wake_.ring();
      break;
    }
    deliver(answer_scratch_);
    delivered = true;
  }
  if (delivered && waiting_ > 0) notify();
  if (session.queued() == 0) return;
  session.pump();
  ring_if_asleep(attachment);
}

void ClientCore::deliver(Answer& answer) {
  if (answer.code == RequestCode::kPutCommit) {
    const auto found = commits_.find(answer.cookie);
    CHECK(found != commits_.end(), "a commit is answered once");
    const std::shared_ptr<FutureState> future = std::move(found->second);
    commits_.erase(found);
    resolve_future(*future, answer.outcomes, Outcome::kEvicted);
    return;
  }
  auto* waiter = reinterpret_cast<Waiter*>(answer.cookie);
  std::swap(waiter->answer, answer);
  waiter->done = true;
}

void ClientCore::lose(std::span<const protocol::Lost> lost) {
  for (const protocol::Lost& item : lost) {
    if (item.code == RequestCode::kPutCommit) {
      const auto found = commits_.find(item.cookie);
      if (found == commits_.end()) continue;
      const std::shared_ptr<FutureState> future = std::move(found->second);
      commits_.erase(found);
      resolve_future(*future, {}, Outcome::kNoNode);
      continue;
    }
    auto* waiter = reinterpret_cast<Waiter*>(item.cookie);
    waiter->lost = true;
  }
  notify();
}

// Returns when something may have changed for the caller, or at the deadline. Whoever finds the
// place free becomes the consumer; the others wait for it.
void ClientCore::wait_progress(Lock& lock, MonoNs until) {
  const MonoNs deadline = WaitInterruption::slice(until);
  const std::shared_ptr<Attachment> on = attachment_;
  if (on != nullptr && on->guarded->session.answer_waiting() && !session_broken_) {
    consume(*on);
    return;
  }
  if (on == nullptr || consumer_active_ || session_broken_ ||
      on->guarded->session.state() != protocol::Session::State::kAttached) {
    ++waiting_;
    progress_.wait_until(lock, time_point_of(deadline));
    --waiting_;
    return;
  }
  consumer_active_ = true;
  sleep_as_consumer(lock, on, deadline);
  consumer_active_ = false;
  consume(*on);
  if (waiting_ > 0) notify();  // the place is free
}

void ClientCore::sleep_as_consumer(Lock& lock, const std::shared_ptr<Attachment>& on,
                                   MonoNs deadline) {
  segment::ChannelHeader& header = on->channel.header();
  if (const MonoNs budget = spin_.budget_ns(); budget > 0) {
    // Only the counter is read: the session belongs to whoever holds the mutex.
    const std::uint32_t before = header.response_head.load(std::memory_order_relaxed);
    const MonoNs until = std::min(monotonic_ns() + budget, deadline);
    lock.unlock();
    bool answered = false;
    do {
      answered = header.response_tail.load(std::memory_order_acquire) != before;
    } while (!answered && monotonic_ns() < until);
    lock.lock();
    if (answered) {
      spin_.hit();
      return;
    }
  }
  protocol::Session& session = on->guarded->session;
  if (!session.prepare_sleep()) return;
  lock.unlock();
  const MonoNs asleep = monotonic_ns();
  static_cast<void>(on->answers.wait(time_left(deadline, asleep)));
  const MonoNs slept = monotonic_ns() - asleep;
  lock.lock();
  spin_.missed(slept);
  session.woke_up();
}

ClientCore::CallEnd ClientCore::call(Lock& lock, MonoNs deadline, const PostRequest& post,
                                     Answer* answer, std::shared_ptr<Attachment>* on) {
  for (;;) {
    if (closed_.load()) return CallEnd::kClosed;
    const std::shared_ptr<Attachment> attachment = attachment_;
    Waiter waiter;
    Posted posted;
    if (attachment != nullptr) {
      consume(*attachment);  // makes room, and keeps what nobody waits for short
      std::swap(waiter.answer, *answer);
      posted = post(*attachment, reinterpret_cast<std::uint64_t>(&waiter));
    }
    switch (posted.result) {
      case Post::kPosted:
        ring_if_asleep(*attachment);
        break;
      case Post::kTooLarge:
        return CallEnd::kTooLarge;
      case Post::kTooManyPuts:
        return CallEnd::kLimit;
      case Post::kNoPutIds:
        return CallEnd::kNoPutIds;
      case Post::kNoRoom:
      case Post::kNotAttached:
        // No memory to work with and no node at the last look: a quick no. A server that is being
        // restarted is waited for.
        if ((attachment == nullptr && attach_tried_) || monotonic_ns() >= deadline)
          return CallEnd::kNoNode;
        wait_progress(lock, deadline);
        if (WaitInterruption::asked_to_stop(lock)) return CallEnd::kNoNode;
        continue;
    }
    PAUSE_POINT(kClientPutPosted);
    while (!waiter.done && !waiter.lost) {
      wait_progress(lock, deadline);
      if (waiter.done || waiter.lost) continue;
      const bool stop = WaitInterruption::asked_to_stop(lock);
      if (waiter.done || waiter.lost || (!stop && monotonic_ns() < deadline)) continue;
      attachment->guarded->session.abandon(posted.request);
      idle_ring();
      return CallEnd::kNoNode;
    }
    std::swap(waiter.answer, *answer);
    if (waiter.lost) continue;  // asked again as long as there is time
    *on = attachment;
    return CallEnd::kAnswered;
  }
}

// An answer will come that nobody waits for: the housekeeping thread has to look for it.
void ClientCore::idle_ring() {
  ++left_behind_;
  if (!idle_sleep_) return;
  idle_sleep_ = false;
  wake_.ring();
}

Error ClientCore::error_of(CallEnd end, const Answer& answer) const {
  switch (end) {
    case CallEnd::kAnswered:
      return {static_cast<ErrorCode>(answer.status),
              answer.text.empty() ? "the node refused the request" : answer.text};
    case CallEnd::kNoNode:
      return {ErrorCode::kNoNode,
              "no node answered at " + socket_path_ +
                  " in time; is orlopd running? last attempt: " + attach_error_.message};
    case CallEnd::kClosed:
      return {ErrorCode::kClosed, "client: was closed"};
    case CallEnd::kTooLarge:
      return {ErrorCode::kLimit,
              "keys: so many do not fit into this client's channel; split the call"};
    case CallEnd::kLimit:
      return {ErrorCode::kLimit, "put: " + std::to_string(protocol::kMaxHeldPuts) +
                                     " puts are open already; commit or abort some"};
    case CallEnd::kNoPutIds:
      return {ErrorCode::kLimit,
              "put: this client has used up its 2^40 put ids; open a new Client"};
  }
  return {ErrorCode::kNoNode, ""};
}

Result<void> ClientCore::resolve(Lock& lock, NamespaceState& ns, MonoNs deadline) {
  const std::uint64_t number = number_.load(std::memory_order_acquire);
  if (number != 0 && ns.row(number)) return {};
  auto post = [&ns](Attachment& attachment, std::uint64_t cookie) {
    return attachment.guarded->session.open_namespace(ns.text, cookie);
  };
  Answer answer;
  std::shared_ptr<Attachment> on;
  const CallEnd end = call(lock, deadline, std::ref(post), &answer, &on);
  if (end != CallEnd::kAnswered || answer.status != protocol::kStatusOk)
    return std::unexpected(error_of(end, answer));
  if (on == attachment_ && answer.args[0] < segment::kMaxNamespaceRows)
    ns.set_row(number_.load(), NamespaceRow{static_cast<std::uint32_t>(answer.args[0])});
  return {};
}

Result<std::shared_ptr<NamespaceState>> ClientCore::open_namespace(
    const NamespaceDescriptor& descriptor) {
  auto text = canonical_text(descriptor);
  if (!text) return std::unexpected(text.error());
  const auto family = family_text(descriptor);
  if (!family) return std::unexpected(family.error());

  Lock lock(mutex_);
  if (closed_.load()) return std::unexpected(error_of(CallEnd::kClosed, {}));
  std::shared_ptr<NamespaceState> state;
  for (const std::shared_ptr<NamespaceState>& known : namespaces_)
    if (known->text == *text) state = known;
  const bool fresh = state == nullptr;
  if (fresh && namespaces_.size() >= client::kMaxNamespaces) {
    return fail(ErrorCode::kLimit, "descriptor: this client has " +
                                       std::to_string(client::kMaxNamespaces) +
                                       " namespaces open, its limit");
  }
  if (fresh) {
    state = std::make_shared<NamespaceState>(this, descriptor, std::move(*text), *family);
    namespaces_.push_back(state);
  }
  const auto resolved = resolve(lock, *state, deadline_in({}));
  if (resolved || resolved.error().code == ErrorCode::kNoNode) return state;
  if (fresh) std::erase(namespaces_, state);
  return std::unexpected(resolved.error());
}

// A call whose answer is a number. ns: opened first; null: none needed.
Result<Answer> ClientCore::simple_call(NamespaceState* ns, const PostRequest& post) {
  const MonoNs deadline = deadline_in({});
  Lock lock(mutex_);
  if (ns != nullptr) {
    if (auto resolved = resolve(lock, *ns, deadline); !resolved)
      return std::unexpected(resolved.error());
  }
  Answer answer;
  std::shared_ptr<Attachment> on;
  const CallEnd end = call(lock, deadline, post, &answer, &on);
  if (end != CallEnd::kAnswered || answer.status != protocol::kStatusOk)
    return std::unexpected(error_of(end, answer));
  return answer;
}

Result<std::uint64_t> ClientCore::remove(NamespaceState& ns, std::span<const Key> keys) {
  if (auto checked = client::check_keys(keys); !checked) return std::unexpected(checked.error());
  std::vector<KeyId> ids;
  ids.reserve(keys.size());
  for (const Key& key : keys) ids.push_back(ns.hasher.hash(key.data(), key.size()));
  auto post = [&](Attachment& attachment, std::uint64_t cookie) {
    const auto row = ns.row(number_.load());
    return row ? attachment.guarded->session.remove(*row, ids, cookie) : Posted{};
  };
  const auto answer = simple_call(&ns, std::ref(post));
  if (!answer) return std::unexpected(answer.error());
  return answer->args[0];
}

Result<std::uint64_t> ClientCore::flush(NamespaceState& ns, bool family) {
  auto post = [&](Attachment& attachment, std::uint64_t cookie) {
    const auto row = ns.row(number_.load());
    return row ? attachment.guarded->session.flush(*row, family, cookie) : Posted{};
  };
  const auto answer = simple_call(&ns, std::ref(post));
  if (!answer) return std::unexpected(answer.error());
  return answer->args[0];
}

Result<void> ClientCore::ping() {
  auto post = [](Attachment& attachment, std::uint64_t cookie) {
    return attachment.guarded->session.ping(cookie);
  };
  const auto answer = simple_call(nullptr, std::ref(post));
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace orlop::detail
