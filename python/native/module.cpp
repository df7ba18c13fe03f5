// SPDX-License-Identifier: Apache-2.0
// The extension module orlop._native: the C++ client, its plans and views for Python.
#include <nanobind/nanobind.h>

#include "child.h"
#include "client.h"
#include "future.h"
#include "gil.h"
#include "keys.h"
#include "page_cache.h"

NB_MODULE(_native, module) {
  namespace py = orlop::python;
  module.doc() = "The C++ part of orlop; import orlop instead.";
  // Objects of daemon threads live to the end of the process; that is no leak.
  nanobind::set_leak_warnings(false);
  py::watch_forks();
  py::bind_packed_keys(module);
  py::bind_results(module);
  py::bind_page(module);
  py::bind_future(module);
  py::bind_put_plan(module);
  py::bind_read_plan(module);
  py::bind_client(module);
  py::bind_page_cache(module);
  py::bind_page_jobs(module);
  py::bind_child(module);
  module.def("_in_main_interpreter",
             [] { return PyInterpreterState_Get() == PyInterpreterState_Main(); });
  module.def("_after_fork_in_child", py::invalidate_all_views);
  // Daemon threads are still running then: from here on only this thread takes the GIL in here.
  module.def("_close_all", [] {
    py::begin_shutdown();
    py::close_all_clients();
  });
}
