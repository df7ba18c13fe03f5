// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <exception>

#include "base/check.h"

namespace orlop::simulation {
namespace {

std::uint64_t plain_load(const void* address, unsigned bytes) {
  switch (bytes) {
    case 1:
      return __atomic_load_n(static_cast<const std::uint8_t*>(address), __ATOMIC_RELAXED);
    case 2:
      return __atomic_load_n(static_cast<const std::uint16_t*>(address), __ATOMIC_RELAXED);
    case 4:
      return __atomic_load_n(static_cast<const std::uint32_t*>(address), __ATOMIC_RELAXED);
    default:
      return __atomic_load_n(static_cast<const std::uint64_t*>(address), __ATOMIC_RELAXED);
  }
}

void plain_store(void* address, unsigned bytes, std::uint64_t value) {
  switch (bytes) {
    case 1:
      return __atomic_store_n(static_cast<std::uint8_t*>(address), value, __ATOMIC_RELAXED);
    case 2:
      return __atomic_store_n(static_cast<std::uint16_t*>(address), value, __ATOMIC_RELAXED);
    case 4:
      return __atomic_store_n(static_cast<std::uint32_t*>(address), value, __ATOMIC_RELAXED);
    default:
      return __atomic_store_n(static_cast<std::uint64_t*>(address), value, __ATOMIC_RELAXED);
  }
}

// On the stack of the process: marks it as running, takes its memory with it when it is killed.
class Frame {
 public:
  Frame(Process& process, AccessObserver& observer, const std::function<void()>& wipe)
      : process_(process),
        wipe_(wipe),
        hooks_(process, observer),
        outer_(segment::g_atomic_hooks),
        exceptions_(std::uncaught_exceptions()) {
    process_.running = true;
    segment::g_atomic_hooks = &hooks_;
  }
  ~Frame() {
    segment::g_atomic_hooks = nullptr;
    if (std::uncaught_exceptions() > exceptions_) wipe_();
    segment::g_atomic_hooks = outer_;
    process_.running = false;
    process_.loads_until_others = Process::kNoLimit;
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Process& process_;
  const std::function<void()>& wipe_;
  ProcessHooks hooks_;
  segment::AtomicHooks* outer_;
  int exceptions_;
};

}  // namespace

void ProcessHooks::pass() {
  if (process_.loads_until_others != Process::kNoLimit && process_.loads_until_others-- == 0) {
    process_.loads_until_others = Process::kNoLimit;
    observer_.others_run_inside(process_);
  }
  if (!process_.alive) throw Abandoned{};
}

void ProcessHooks::spend_a_store() {
  pass();
  if (process_.stores_left == Process::kNoLimit) return;
  if (process_.stores_left == 0) {
    process_.alive = false;
    throw Abandoned{};
  }
  --process_.stores_left;
}

std::uint64_t ProcessHooks::load(const void* address, unsigned bytes) {
  pass();
  return plain_load(address, bytes);
}

void ProcessHooks::store(void* address, unsigned bytes, std::uint64_t value) {
  spend_a_store();
  const std::uint64_t before = plain_load(address, bytes);
  plain_store(address, bytes, value);
  observer_.stored(address, before, value);
}

void ProcessHooks::before_rmw(void*, unsigned) {
  spend_a_store();
}

void ProcessHooks::fence() {
  pass();
}

bool run_as(Process& process, AccessObserver& observer, const std::function<void()>& code,
            const std::function<void()>& wipe) {
  if (!process.alive) return false;
  CHECK(!process.running, "a process runs one step at a time");
  try {
    const Frame frame(process, observer, wipe);
    code();
    return true;
  } catch (const Abandoned&) {
    return false;
  }
}

}  // namespace orlop::simulation
