// SPDX-License-Identifier: Apache-2.0
#include "runtime/inspect_port.h"

#include <chrono>
#include <utility>

namespace orlop::runtime {

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
  answered_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                     [&] { return closed_ || entry->answer.has_value(); });
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
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  answered_.notify_all();
}

}  // namespace orlop::runtime
