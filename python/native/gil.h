// SPDX-License-Identifier: Apache-2.0
// Giving up the interpreter lock (GIL) for a wait or a copy, and taking it back, also at the end of
// the interpreter.
//
// Why not the binding library's own guard: at the end of the interpreter, CPython before 3.14 ends
// a daemon thread inside "take the lock back" by unwinding its stack, and unwinding through a C++
// function that may not throw ends the process. Here such a thread is parked for ever instead, as
// 3.14 does; the process ends around it.
#pragma once

#include <Python.h>

#include <cstddef>

#include "client/interruption.h"

namespace orlop::python {

// Bytes of a copy; below, giving up the GIL costs more than the copy.
inline constexpr std::size_t kCopyWithoutGil = 4096;

// Other Python threads run while this object lives. Requires: the calling thread holds the GIL.
// In the main thread, where Python runs signal handlers, they run at every wake-up of a wait for
// the node, at most 50 ms apart (client::kInterruptionSlice); one that raises ends the wait, and
// the Python error is set afterwards (value_or_raise throws it). In other threads a wait lasts
// until its deadline, as every wait of Python does there.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
  client::WaitInterruption interruption_;
};

// Takes the GIL in a thread that Python does not know (the client's own). False: the interpreter is
// ending, Python must not be called.
class GilAcquire {
 public:
  GilAcquire();
  ~GilAcquire();
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;
  explicit operator bool() const { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_{};
};

// Called once, with the GIL, when the module is made.
void watch_forks();
// Called with the GIL from an atexit handler: from now on only this thread takes the GIL here.
// Returns when no other thread is about to take it. What a parked thread holds is never given back:
// a thread that could wait for such a thing asks interpreter_ends() first.
void begin_shutdown();
bool interpreter_ends();  // begin_shutdown was called

}  // namespace orlop::python
