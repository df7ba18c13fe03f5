// SPDX-License-Identifier: Apache-2.0
// Between a copy into or out of a plan's memory and close(), which another thread may call: a slot
// must not be given away under a running copy.
//
// Dekker's pattern, both sides sequentially consistent: the copy counts itself and then looks at
// `closed`; close() sets `closed`, then waits until no copy is counted, then ends the plans. Each
// plan has a gate of its own, so that no two threads share its cache line.
//
// Commit, abort and release of a plan on another thread are against the contract (a plan belongs to
// one thread at a time); they refuse where they see a copy.
#pragma once

#include <atomic>
#include <cstdint>

namespace orlop::client {

class CopyGate {
 public:
  // A copy runs. Never waits for anything but the copy itself, so close() may wait for it.
  bool busy() const { return copies_.load() != 0; }

 private:
  friend class RunningCopy;
  std::atomic<std::uint32_t> copies_{0};
};

// Holds the gate for the length of one copy. While it lives: take no lock, call nobody back.
class RunningCopy {
 public:
  RunningCopy(CopyGate& gate, const std::atomic<bool>& closed) : gate_(gate) {
    gate_.copies_.fetch_add(1);
    allowed_ = !closed.load();
  }
  ~RunningCopy() { gate_.copies_.fetch_sub(1, std::memory_order_release); }
  RunningCopy(const RunningCopy&) = delete;
  RunningCopy& operator=(const RunningCopy&) = delete;
  // False: the client was closed, the memory must not be touched.
  explicit operator bool() const { return allowed_; }

 private:
  CopyGate& gate_;
  bool allowed_ = false;
};

}  // namespace orlop::client
