// SPDX-License-Identifier: Apache-2.0
#include "future.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gil.h"

namespace orlop::python {

namespace {

// How late Ctrl-C may come.
constexpr Milliseconds kSlice{50};

std::optional<std::vector<Outcome>> wait_slice(const Future& future, Milliseconds time) {
  const GilRelease others;
  return future.wait(time);
}

}  // namespace

nb::object outcome_list(const std::vector<Outcome>& outcomes) {
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(outcomes.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), to_python(outcomes[i]));
  return list;
}

std::optional<std::vector<Outcome>> wait_interruptibly(const Future& future,
                                                       std::optional<double> timeout_s) {
  using Clock = std::chrono::steady_clock;
  if (timeout_s && !(*timeout_s >= 0))
    raise(ErrorCode::kInvalidArgument, "timeout: is negative; give 0 or more seconds, or None");
  constexpr double kLongest = 365.0 * 24 * 3600;
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                         std::min(timeout_s.value_or(kLongest), kLongest)));
  for (;;) {
    const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
    auto outcomes = wait_slice(future, std::clamp(left, Milliseconds{0}, kSlice));
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (outcomes) return outcomes;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout_s && left.count() <= 0) return std::nullopt;
  }
}

void bind_future(nb::module_& module) {
  nb::class_<FutureBox>(
      module, "Future",
      "The answer to a commit: one Outcome per key of the put, exactly once.\n\n"
      "`await future` and future.result() give the same list. May be asked from any thread and "
      "any\n"
      "event loop, any number of times; may be dropped, the commit goes on. Resolves to NO_NODE\n"
      "when the node's memory or the client is gone.")
      .def(
          "ready",
          [](const FutureBox& self) {
            self.box->check_process();
            return self.future.ready();
          },
          "True when result() would not wait. Never blocks.")
      .def(
          "__await__",
          [](nb::handle self) {
            return imported("orlop.waiting").attr("wait")(self).attr("__await__")();
          },
          nb::sig("def __await__(self) -> Generator[Any, None, list[Outcome]]"),
          "The outcomes, without blocking the event loop.")
      .def(
          "result",
          [](const FutureBox& self, std::optional<double> timeout) {
            self.box->check_process();
            const auto outcomes = wait_interruptibly(self.future, timeout);
            if (outcomes) return outcome_list(*outcomes);
            PyErr_SetString(PyExc_TimeoutError, "the commit was not answered in time; ask again");
            throw nb::python_error();
          },
          nb::arg("timeout") = nb::none(),
          nb::sig("def result(self, timeout: float | None = None) -> list[Outcome]"),
          "Waits for the outcomes. timeout: seconds, None: for ever; then raises TimeoutError and\n"
          "may be asked again. The GIL is released meanwhile, Ctrl-C raises KeyboardInterrupt.");
}

}  // namespace orlop::python
