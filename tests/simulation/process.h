// SPDX-License-Identifier: Apache-2.0
// A simulated process: something that can be stopped, and killed between any two accesses to shared
// memory. Its code runs on the one real stack; every access goes through ProcessHooks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "segment/atomics.h"

namespace orlop::simulation {

// Thrown by the hooks out of a process that was killed. Unwinding must not touch shared memory.
struct Abandoned {};

struct Process {
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
  std::uint32_t pid = 0;
  bool alive = true;
  std::uint64_t stopped_until = 0;              // virtual time; SIGSTOP
  bool running = false;                         // its code is on the stack
  std::uint64_t stores_left = kNoLimit;         // it is killed before the store after these
  std::uint64_t loads_until_others = kNoLimit;  // accesses before others run inside its step
};

// The write end of a client's fork pipe: held by the process and by every child that it forked.
struct ForkPipe {
  std::uint32_t writers = 1;
  bool closed() const { return writers == 0; }
};

// What the hooks tell the simulation.
class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  virtual void stored(const void* address, std::uint64_t before, std::uint64_t after) = 0;
  // The process stands between two of its accesses: others may run now.
  virtual void others_run_inside(Process& process) = 0;
};

class ProcessHooks : public segment::AtomicHooks {
 public:
  ProcessHooks(Process& process, AccessObserver& observer)
      : process_(process), observer_(observer) {}
  std::uint64_t load(const void* address, unsigned bytes) override;
  void store(void* address, unsigned bytes, std::uint64_t value) override;
  void before_rmw(void* address, unsigned bytes) override;
  void fence() override;

 private:
  void pass();
  void spend_a_store();
  Process& process_;
  AccessObserver& observer_;
};

// Runs a piece of the process's code. False: it was killed in it (or is dead). wipe: drops the
// process's private memory; called while the kill unwinds, when its frames are gone.
bool run_as(Process& process, AccessObserver& observer, const std::function<void()>& code,
            const std::function<void()>& wipe);

// The simulation's own look at shared memory: nobody is killed, nobody else runs.
class Unobserved {
 public:
  Unobserved() : hooks_(segment::g_atomic_hooks) { segment::g_atomic_hooks = nullptr; }
  ~Unobserved() { segment::g_atomic_hooks = hooks_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  segment::AtomicHooks* hooks_;
};

}  // namespace orlop::simulation
