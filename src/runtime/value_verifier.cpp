// SPDX-License-Identifier: Apache-2.0
#include "runtime/value_verifier.h"

#include <iterator>

#include "copy/checksum.h"

namespace orlop::runtime {

ValueVerifier::ValueVerifier(std::span<const std::byte> values, const segment::Geometry& geometry,
                             const EventFd& wake)
    : values_(values), geometry_(geometry), wake_(wake), thread_([this] { run(); }) {}

ValueVerifier::~ValueVerifier() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ValueVerifier::ask(const protocol::VerifyValue& question) {
  {
    const std::lock_guard lock(mutex_);
    questions_.push_back(question);
  }
  changed_.notify_one();
}

void ValueVerifier::take(std::vector<protocol::event::ValueVerified>& out) {
  const std::lock_guard lock(mutex_);
  out.insert(out.end(), answers_.begin(), answers_.end());
  answers_.clear();
}

bool ValueVerifier::matches(const protocol::VerifyValue& question) const {
  if (!geometry_.in_bounds(question.slot, question.value_len)) return false;
  const auto value = values_.subspan(geometry_.value_offset(question.slot, question.value_len),
                                     question.value_len);
  return checksum(value, {question.key, question.namespace_digest}) == question.expected;
}

void ValueVerifier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !questions_.empty(); });
    if (stop_) return;
    const protocol::VerifyValue question = questions_.front();
    questions_.erase(questions_.begin());
    lock.unlock();
    const bool good = matches(question);
    lock.lock();
    answers_.push_back({question.reporter, question.slot, question.generation, good});
    wake_.ring();
  }
}

}  // namespace orlop::runtime
