// SPDX-License-Identifier: Apache-2.0
#include "runtime/inspect_port.h"

#include <chrono>
#include <utility>

#include "platform/clock.h"

namespace orlop::runtime {

InspectPort::~InspectPort() {
  close();
  std::unique_lock lock(mutex_);
  answered_.wait(lock, [this] { return inside_ == 0; });
}

Result<protocol::InspectAnswer> InspectPort::ask(const protocol::InspectQuestion& question,
                                                 MonoNs timeout_ns) {
  std::unique_lock lock(mutex_);
  if (closed_) return fail(ErrorCode::kClosed, "the server is stopping");
  if (waiting_.size() >= kMaxQuestions) {
    return fail(ErrorCode::kLimit,
                std::to_string(kMaxQuestions) + " questions wait already; try again");
  }
  const auto entry = std::make_shared<Entry>();
  entry->question = question;
  waiting_.push_back(entry);
  wake_.ring();
  ++inside_;
  answered_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                     [&] { return closed_ || entry->answer.has_value(); });
  --inside_;
  if (closed_) answered_.notify_all();  // the destructor may wait; under the lock, so it is there
  if (!entry->answer) {
    std::erase(waiting_, entry);
    return closed_ ? fail(ErrorCode::kClosed, "the server is stopping")
                   : fail(ErrorCode::kDeadline, "the server does not answer");
  }
  if (auto* error = std::get_if<Error>(&*entry->answer)) return std::unexpected(std::move(*error));
  return std::move(*entry->answer);
}

std::shared_ptr<InspectPort::Entry> InspectPort::take() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return nullptr;
  const auto entry = waiting_.front();
  waiting_.pop_front();
  return entry;
}

void InspectPort::serve(const Answerer& answerer) {
  for (unsigned i = 0; i < kQuestionsPerRound; ++i) {
    const auto entry = take();
    if (entry == nullptr) return;
    // The question is nobody else's while it is answered; only `answer` is shared.
    protocol::InspectAnswer answer = answerer(entry->question);
    {
      const std::lock_guard lock(mutex_);
      entry->answer = std::move(answer);
    }
    answered_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) wake_.ring();
}

void InspectPort::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  answered_.notify_all();
}

namespace {

template <class Parts>
Result<void> append_rest(InspectPort& port, Parts& parts, MonoNs deadline) {
  while (parts.next) {
    const MonoNs now = monotonic_ns();
    if (now >= deadline) return fail(ErrorCode::kDeadline, "the ledgers take too long to read");
    auto part = port.ask(*parts.next, deadline - now);
    if (!part) return std::unexpected(part.error());
    parts.append(std::move(std::get<Parts>(*part)));
  }
  return {};
}

}  // namespace

Result<protocol::InspectAnswer> ask_whole(InspectPort& port,
                                          const protocol::InspectQuestion& question,
                                          MonoNs timeout_ns) {
  const MonoNs deadline = monotonic_ns() + timeout_ns;
  auto answer = port.ask(question, timeout_ns);
  if (!answer) return answer;
  Result<void> rest;
  if (auto* key = std::get_if<protocol::KeyFacts>(&*answer)) {
    rest = append_rest(port, key->holders, deadline);
  } else if (auto* client = std::get_if<protocol::ClientFacts>(&*answer)) {
    rest = append_rest(port, client->held, deadline);
  }
  if (!rest) return std::unexpected(rest.error());
  return answer;
}

}  // namespace orlop::runtime
