// SPDX-License-Identifier: Apache-2.0
// Python's seconds as the library's milliseconds, and waiting by them.
#pragma once

#include <Python.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "errors.h"
#include "gil.h"
#include "orlop/client.h"

namespace orlop::python {

// Rounded up; more than a year counts as one, which no deadline here comes near to. Throws
// InvalidArgument in the argument's name.
Milliseconds milliseconds_of(double seconds, const char* argument);

inline constexpr Milliseconds kWaitSlice{50};  // how late Ctrl-C may come

// Calls look(time to wait), without the GIL, until it answers (an optional) or timeout_s is over;
// none: for ever. Signal handlers run between the looks, in the main thread; what they raise ends
// the wait.
template <class Look>
auto wait_in_slices(std::optional<double> timeout_s, const Look& look)
    -> decltype(look(Milliseconds{})) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> until;
  if (timeout_s) until = Clock::now() + milliseconds_of(*timeout_s, "timeout");
  for (;;) {
    const auto left =
        until ? std::chrono::ceil<Milliseconds>(*until - Clock::now()) : Milliseconds{kWaitSlice};
    const auto answer = [&] {
      const GilRelease others;
      return look(std::clamp(left, Milliseconds{0}, kWaitSlice));
    }();
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (answer) return answer;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (left.count() <= 0) return std::nullopt;
  }
}

}  // namespace orlop::python
