// SPDX-License-Identifier: Apache-2.0
#include "client/thread_state.h"

#include <algorithm>
#include <utility>

namespace orlop::client {

namespace {

struct Remembered {
  std::uint64_t client_serial = 0;
  std::shared_ptr<ThreadState> state;
  std::weak_ptr<ThreadExitListener> listener;
  ForkGuard guard;
};

// The last one found: trivial, so that reading it costs no construction check.
constinit thread_local std::uint64_t t_serial = 0;
constinit thread_local ThreadState* t_state = nullptr;
constinit thread_local bool t_ending = false;

class ThreadStates {
 public:
  ThreadStates() = default;
  ThreadStates(const ThreadStates&) = delete;
  ThreadStates& operator=(const ThreadStates&) = delete;
  ~ThreadStates() {
    t_ending = true;
    t_serial = 0;
    t_state = nullptr;
    for (std::unique_ptr<Remembered>& entry : entries_) {
      // Made by the parent of this process: not ours to touch, so it stays where it is.
      if (entry->guard.in_forked_child()) {
        static_cast<void>(entry.release());
        continue;
      }
      if (const auto listener = entry->listener.lock()) listener->thread_exits(*entry->state);
    }
  }

  ThreadState* find(std::uint64_t client_serial) const {
    for (const std::unique_ptr<Remembered>& entry : entries_)
      if (entry->client_serial == client_serial) return entry->state.get();
    return nullptr;
  }
  void add(Remembered entry) {
    forget_closed();
    entries_.push_back(std::make_unique<Remembered>(std::move(entry)));
  }

 private:
  // Clients come and go; a thread keeps nothing of those that are gone.
  void forget_closed() {
    std::erase_if(entries_, [](const std::unique_ptr<Remembered>& entry) {
      return !entry->guard.in_forked_child() && entry->listener.expired();
    });
  }
  std::vector<std::unique_ptr<Remembered>> entries_;
};

thread_local ThreadStates t_states;

}  // namespace

void ReadCounters::add(const ReadCounters& other) {
  gets += other.gets;
  keys_asked += other.keys_asked;
  keys_hit += other.keys_hit;
  bytes_read += other.bytes_read;
  mismatches += other.mismatches;
  for (std::size_t i = 0; i < misses.size(); ++i) misses[i] += other.misses[i];
  for (std::size_t i = 0; i < latency.counts.size(); ++i)
    latency.counts[i] += other.latency.counts[i];
  latency.sum_ns += other.latency.sum_ns;
}

ThreadState::~ThreadState() = default;

ThreadState* find_thread_state(std::uint64_t client_serial) {
  if (t_serial == client_serial) return t_state;
  if (t_ending) return nullptr;
  ThreadState* found = t_states.find(client_serial);
  if (found != nullptr) {
    t_serial = client_serial;
    t_state = found;
  }
  return found;
}

bool remember_thread_state(std::uint64_t client_serial, std::shared_ptr<ThreadState> state,
                           std::weak_ptr<ThreadExitListener> listener, ForkGuard guard) {
  if (t_ending) return false;
  t_serial = client_serial;
  t_state = state.get();
  t_states.add({client_serial, std::move(state), std::move(listener), guard});
  return true;
}

}  // namespace orlop::client
