// SPDX-License-Identifier: Apache-2.0
#include "future.h"

#include <nanobind/stl/optional.h>

#include "seconds.h"

namespace orlop::python {

nb::object outcome_list(const std::vector<Outcome>& outcomes) {
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(outcomes.size())));
  if (!list.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), to_python(outcomes[i]));
  return list;
}

nb::object awaited(nb::handle self) {
  return imported("orlop.waiting").attr("wait")(self).attr("__await__")();
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
      .def("__await__", &awaited,
           nb::sig("def __await__(self) -> Generator[Any, None, list[Outcome]]"),
           "The outcomes, without blocking the event loop.")
      .def(
          "result",
          [](const FutureBox& self, std::optional<double> timeout) {
            self.box->check_process();
            const auto outcomes =
                wait_in_slices(timeout, [&](Milliseconds time) { return self.future.wait(time); });
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
