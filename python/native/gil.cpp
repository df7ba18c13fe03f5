// SPDX-License-Identifier: Apache-2.0
#include "gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace orlop::python {

namespace {

// Dekker's pattern: a thread announces itself in g_taking and then looks at g_ending; the ending
// thread sets g_ending and then waits for g_taking to be 0. Both with sequential consistency.
std::atomic<bool> g_ending{false};
std::atomic<int> g_taking{0};
std::atomic<pthread_t> g_ending_thread{};

bool may_take() {
  g_taking.fetch_add(1);
  if (!g_ending.load() || pthread_equal(g_ending_thread.load(), ::pthread_self()) != 0) return true;
  g_taking.fetch_sub(1);
  return false;
}

// At every wake-up of a wait. Handlers run in the main thread only, elsewhere this finds nothing.
bool signal_has_raised() {
  const GilAcquire gil;
  return gil && (PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0);
}

}  // namespace

GilRelease::GilRelease() : state_(PyEval_SaveThread()), interruption_(signal_has_raised) {}

GilRelease::~GilRelease() {
  while (!may_take()) ::pause();
  PyEval_RestoreThread(state_);
  g_taking.fetch_sub(1);
}

GilAcquire::GilAcquire() {
  if (!may_take()) return;
  state_ = PyGILState_Ensure();
  held_ = true;
  g_taking.fetch_sub(1);
}

GilAcquire::~GilAcquire() {
  if (held_) PyGILState_Release(state_);
}

void watch_forks() {
  // Threads that were taking the GIL are not in the child.
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { g_taking.store(0); });
  static_cast<void>(registered);
}

bool interpreter_ends() {
  return g_ending.load();
}

void begin_shutdown() {
  g_ending_thread.store(::pthread_self());
  g_ending.store(true);
  PyThreadState* const state = PyEval_SaveThread();
  while (g_taking.load() != 0) std::this_thread::yield();
  PyEval_RestoreThread(state);
}

}  // namespace orlop::python
