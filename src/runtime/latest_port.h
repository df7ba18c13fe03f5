// SPDX-License-Identifier: Apache-2.0
// Where other threads ask for the latest of something and the server's thread makes it between two
// rounds of its loop. All who wait get the same one.
//
// Thread: take() any but the server's; wanted() and deliver() the server's only; close() any. The
// destructor closes, and waits until those inside have left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "base/ids.h"
#include "platform/event_fd.h"

namespace orlop::runtime {

template <class Answer>
class LatestPort {
 public:
  // wake: rung when somebody asks; outlives this object.
  explicit LatestPort(const EventFd& wake) : wake_(wake) {}
  ~LatestPort() {
    close();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ == 0; });
  }
  LatestPort(const LatestPort&) = delete;
  LatestPort& operator=(const LatestPort&) = delete;

  // One begun after this call; null when the server did not answer within timeout_ns (stuck or
  // stopping).
  std::shared_ptr<const Answer> take(MonoNs timeout_ns) {
    std::unique_lock lock(mutex_);
    if (closed_) return nullptr;
    const std::uint64_t ticket = ++asked_;
    wake_.ring();
    ++inside_;
    const bool there = changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                         [&] { return closed_ || delivered_ >= ticket; });
    --inside_;
    if (closed_) changed_.notify_all();  // the destructor may wait; under the lock, so it is there
    return there && !closed_ ? last_ : nullptr;
  }

  // Number of the latest question, 0 if none is open. What deliver() wants back.
  std::uint64_t wanted() {
    const std::lock_guard lock(mutex_);
    return asked_ != delivered_ ? asked_ : 0;
  }
  void deliver(std::uint64_t ticket, std::shared_ptr<const Answer> answer) {
    {
      const std::lock_guard lock(mutex_);
      last_ = std::move(answer);
      delivered_ = ticket;
    }
    changed_.notify_all();
  }
  void close() {  // no answers any more
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const EventFd& wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0, delivered_ = 0;
  unsigned inside_ = 0;  // askers that wait
  bool closed_ = false;
  std::shared_ptr<const Answer> last_;
};

}  // namespace orlop::runtime
