// SPDX-License-Identifier: Apache-2.0
// Recomputes checksums of values that a client reported as wrong, on a thread of its own over the
// node's own mapping: the server's thread answers others meanwhile. The node machine has pinned the
// slot, so the bytes stay in place.
// Bound: the machine asks once per client at a time, so at most kMaxClients wait.
// Thread: ask() and take() by the server's thread; the destructor waits for the value in work.
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "platform/event_fd.h"
#include "protocol/node/node_machine.h"
#include "segment/geometry.h"

namespace orlop::runtime {

class ValueVerifier {
 public:
  // wake: rung when an answer is there. values: the value area; both outlive this object.
  ValueVerifier(std::span<const std::byte> values, const segment::Geometry& geometry,
                const EventFd& wake);
  ~ValueVerifier();
  ValueVerifier(const ValueVerifier&) = delete;
  ValueVerifier& operator=(const ValueVerifier&) = delete;

  void ask(const protocol::VerifyValue& question);
  // Moves the answers that are there into out (appended).
  void take(std::vector<protocol::event::ValueVerified>& out);

 private:
  void run();
  bool matches(const protocol::VerifyValue& question) const;

  std::span<const std::byte> values_;
  segment::Geometry geometry_;
  const EventFd& wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<protocol::VerifyValue> questions_;
  std::vector<protocol::event::ValueVerified> answers_;
  bool stop_ = false;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace orlop::runtime
