// SPDX-License-Identifier: Apache-2.0
// The atomic type of everything in shared memory.
//
// In production Atomic<T> is std::atomic<T> and full_fence() a sequentially consistent fence. In
// simulation builds (ORLOP_SIMULATION) every access first goes through an installed AtomicHooks:
// the interleaving explorer switches fibers there and keeps a store buffer per fiber (so a missing
// fence shows), the simulator counts stores and abandons a process between any two of them. The
// proved code and the shipped code are the same lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace orlop::segment {

#ifndef ORLOP_SIMULATION

template <class T>
using Atomic = std::atomic<T>;

// Orders this thread's earlier stores before its later loads (store-load). Partner of the same
// call on the other side of the hazard protocol (docs/architecture/segment.md).
inline void full_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

#else

// All values are passed widened to 64 bits; `bytes` is 1, 2, 4 or 8.
class AtomicHooks {
 public:
  virtual ~AtomicHooks() = default;
  virtual std::uint64_t load(const void* address, unsigned bytes) = 0;
  virtual void store(void* address, unsigned bytes, std::uint64_t value) = 0;
  // A read-modify-write is a full barrier, as on x86: called before it, flushes the store buffer.
  virtual void before_rmw(void* address, unsigned bytes) = 0;
  virtual void fence() = 0;
};

// Installed hooks of the running fiber or simulated process; null = plain access.
extern thread_local AtomicHooks* g_atomic_hooks;

inline void full_fence() {
  if (g_atomic_hooks != nullptr) g_atomic_hooks->fence();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

template <class T>
class Atomic {
  static_assert(std::is_unsigned_v<T>);

 public:
  Atomic() = default;
  explicit constexpr Atomic(T v) : value_(v) {}
  T load(std::memory_order order = std::memory_order_seq_cst) const {
    if (g_atomic_hooks != nullptr) return static_cast<T>(g_atomic_hooks->load(&value_, sizeof(T)));
    return value_.load(order);
  }
  void store(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) {
      g_atomic_hooks->store(&value_, sizeof(T), v);
      return;
    }
    value_.store(v, order);
  }
  T fetch_or(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.fetch_or(v, order);
  }
  T fetch_and(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.fetch_and(v, order);
  }
  T fetch_add(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.fetch_add(v, order);
  }
  T fetch_sub(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.fetch_sub(v, order);
  }
  T exchange(T v, std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.exchange(v, order);
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst) {
    if (g_atomic_hooks != nullptr) g_atomic_hooks->before_rmw(&value_, sizeof(T));
    return value_.compare_exchange_strong(expected, desired, order);
  }

 private:
  std::atomic<T> value_{};
};

#endif

static_assert(sizeof(Atomic<std::uint64_t>) == 8 && sizeof(Atomic<std::uint32_t>) == 4);

}  // namespace orlop::segment
