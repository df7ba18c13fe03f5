// SPDX-License-Identifier: Apache-2.0
// What one thread has of one client: its ledger chunks, its open reads, its counters. Found through
// a thread-local cache; its mutex is taken by others only for TTLs, statistics, a new attachment
// and close(), so a read pays for an uncontended lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/attachment.h"
#include "client/read_state.h"
#include "orlop/outcome.h"
#include "platform/fork_guard.h"
#include "segment/ledger.h"
#include "segment/report_counters.h"

namespace orlop::client {

struct ReadCounters {
  std::uint64_t gets = 0, keys_asked = 0, keys_hit = 0, bytes_read = 0, mismatches = 0;
  std::array<std::uint64_t, kMissReasonCount> misses{};
  segment::LatencyCounts latency;  // of every kTimedGets-th get
  void add(const ReadCounters& other);
};

struct ThreadState {
  ~ThreadState();

  std::mutex mutex;  // may be held when the core's mutex is taken, never the other way round
  std::uint64_t number = 0;  // of the attachment; 0: none
  std::shared_ptr<Attachment> attachment;
  std::optional<segment::ThreadLedger> ledger;
  detail::ReadState* open = nullptr;    // list of open reads, newest first
  detail::ReadState* oldest = nullptr;  // its end
  std::uint32_t handles = 0, plans = 0;
  std::vector<std::unique_ptr<detail::ReadState>> spare;
  std::vector<std::uint32_t> chunks;  // scratch
  ReadCounters counters;
  bool thread_gone = false;
};

// Called at the end of a thread for each of its ThreadStates.
class ThreadExitListener {
 public:
  virtual ~ThreadExitListener() = default;
  virtual void thread_exits(ThreadState& state) = 0;
};

// The calling thread's state for the client with this serial number, or null.
ThreadState* find_thread_state(std::uint64_t client_serial);
// Remembers it until the thread ends. False: the thread is ending, nothing can be remembered.
bool remember_thread_state(std::uint64_t client_serial, std::shared_ptr<ThreadState> state,
                           std::weak_ptr<ThreadExitListener> listener, ForkGuard guard);

}  // namespace orlop::client
