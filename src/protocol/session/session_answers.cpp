// SPDX-License-Identifier: Apache-2.0
// Session: what comes back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/planted.h"
#include "protocol/session/session.h"

namespace orlop::protocol {

bool Session::abandon(RequestId request) {
  Outstanding* entry = find(request);
  if (entry == nullptr || entry->abandoned) return false;
  entry->abandoned = true;
  entry->cookie = 0;
  if (PLANTED(kArenaReusedAtDeadline)) {
    arena_.free(entry->region.offset, entry->region.bytes);
    entry->region_free = true;
  }
  return true;
}

void Session::forget(Outstanding& entry) {
  if (entry.code == RequestCode::kPutStart) --starting_;
  const auto index = static_cast<std::uint32_t>(&entry - outstanding_.data());
  entry = Outstanding{};
  free_entries_.push_back(index);
  --unanswered_;
}

Session::Next Session::broken() {
  if (state_ == State::kAttached) state_ = State::kLost;
  return Next::kBroken;
}

Session::Next Session::next(Answer* out) {
  if (std::exchange(cells_denied_, false) && state_ == State::kAttached) return broken();
  while (state_ == State::kAttached || state_ == State::kLost) {
    segment::RingMessage message;
    switch (responses_.pop(&message)) {
      case segment::RingConsumer::Pop::kEmpty:
        return Next::kNone;
      case segment::RingConsumer::Pop::kMalformed:
        return broken();
      case segment::RingConsumer::Pop::kMessage:
        break;
    }
    if (message.ring_generation != ring_generation_) return broken();
    Outstanding* entry = find(RequestId{message.request_id});
    if (entry == nullptr || message.code != static_cast<std::uint32_t>(entry->code) ||
        !read_answer(message, *entry, out))
      return broken();
    const bool wanted = deliver(*entry, out);
    if (!entry->region_free) arena_.free(entry->region.offset, entry->region.bytes);
    forget(*entry);
    if (wanted) return Next::kAnswer;
  }
  return Next::kNone;
}

// Copies the answer out of the arena; false when it does not fit its request.
bool Session::read_answer(const segment::RingMessage& message, const Outstanding& entry,
                          Answer* out) const {
  const std::uint64_t begin = entry.region.offset + answer_offset(entry.region.request_bytes);
  const std::uint64_t end = std::uint64_t{entry.region.offset} + entry.region.bytes;
  if (message.body_bytes != 0 && (message.body_offset < begin ||
                                  std::uint64_t{message.body_offset} + message.body_bytes > end))
    return false;
  const std::byte* body = channel_.arena().data() + message.body_offset;
  std::uint64_t left = message.body_bytes;
  out->request = entry.request;
  out->code = entry.code;
  out->cookie = entry.cookie;
  out->put = entry.put;
  out->status = message.args[kStatusArg];
  std::copy_n(message.args, std::size(out->args), out->args);
  out->grants.clear();
  out->outcomes.clear();
  if (out->status == kStatusOk && entry.code == RequestCode::kPutStart) {
    if (left < put_start_answer_bytes(entry.count)) return false;
    out->grants.resize(entry.count);
    std::memcpy(out->grants.data(), body, entry.count * sizeof(SlotGrant));
    body += entry.count * sizeof(SlotGrant);
    left -= entry.count * sizeof(SlotGrant);
  }
  if (out->status == kStatusOk &&
      (entry.code == RequestCode::kPutStart || entry.code == RequestCode::kPutCommit)) {
    if (left < entry.count) return false;
    out->outcomes.resize(entry.count);
    std::memcpy(out->outcomes.data(), body, entry.count);
    for (Outcome outcome : out->outcomes)
      if (static_cast<int>(outcome) >= kOutcomeCount) return false;
    body += entry.count;
    left -= entry.count;
  }
  // What is left is text: of the error, or the pool's state.
  out->text.assign(reinterpret_cast<const char*>(body),
                   std::min<std::uint64_t>(left, kMaxErrorText));
  return true;
}

// What the answer changes here. True if somebody wants to hear of it.
bool Session::deliver(const Outstanding& entry, Answer* out) {
  switch (entry.code) {
    case RequestCode::kPutStart: {
      const bool memory = std::any_of(out->grants.begin(), out->grants.end(),
                                      [](const SlotGrant& grant) { return grant.slot != 0; });
      if (memory && entry.abandoned) {
        SOMETIMES(true, "late_put_start_aborted");
        ++aborted_late_;
        if (!PLANTED(kLateGrantNotAborted))
          private_queue_.push_back({.code = RequestCode::kPutAbort, .put = entry.put});
      } else if (memory) {
        puts_.emplace(entry.put, HeldPut{});
      }
      return !entry.abandoned;
    }
    case RequestCode::kPutCommit: {
      const auto held = puts_.find(entry.put);
      CHECK(held != puts_.end(), "a commit in flight is kept");
      out->cookie = held->second.cookie;
      puts_.erase(held);
      return out->cookie != 0;
    }
    case RequestCode::kDetach:
      state_ = State::kOver;
      return entry.cookie != 0;
    case RequestCode::kPutAbort:
    case RequestCode::kReportMismatch:
      return false;
    case RequestCode::kOpenNamespace:
    case RequestCode::kRemove:
    case RequestCode::kFlush:
    case RequestCode::kPing:
    case RequestCode::kDrain:
      return !entry.abandoned;
  }
  return false;
}

bool Session::prepare_sleep() {
  if (state_ == State::kReset || state_ == State::kOver) return true;  // nothing will come
  const bool looked = PLANTED(kSleeperLooksFirst) && responses_.empty();
  // Partner: the node stores the response tail, fences and reads this flag.
  channel_.header().client_sleeping.store(1, std::memory_order_relaxed);
  segment::full_fence();
  if (looked || responses_.empty()) return true;
  woke_up();
  return false;
}

void Session::woke_up() {
  channel_.header().client_sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace orlop::protocol
