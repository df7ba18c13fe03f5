// SPDX-License-Identifier: Apache-2.0
#include "read_plan.h"

namespace orlop::python {

using Object = PlanObject<ReadPlanBox>;

namespace {

void bind_handle(nb::module_& module) {
  nb::class_<HandleBox>(
      module, "GetHandle",
      "A pinned prefix, not yet transferred: Client.get_transfer consumes it, Client.cancel_get,\n"
      "dropping it and handle_ttl cancel it.")
      .def_prop_ro(
          "result",
          [](const HandleBox& self) {
            self.box->check_process();
            return self.handle.result();
          },
          nb::sig("def result(self) -> GetResult"),
          "What was pinned; also after the handle's end.");
}

}  // namespace

void bind_read_plan(nb::module_& module) {
  bind_handle(module);
  nb::class_<Object>(
      module, "ReadPlan",
      "The readable values of a prefix of the keys asked for. A context manager: leaving the "
      "block\n"
      "releases it.\n\n"
      "view(i) and array(i) are the node's shared memory itself, pinned while the plan is open.\n"
      "release() releases the memoryviews that were handed out: using them afterwards raises\n"
      "ValueError. An array cannot be told: while one lives, release() raises BufferError and the\n"
      "memory stays pinned until the last one is gone. After its end every call raises "
      "WrongState.\n"
      "A page whose bytes do not match their checksum is a miss, and so are all after it.")
      .def(
          "__len__", [](const Object& self) { return self->size(); },
          "Pages: the length of the prefix.")
      .def_prop_ro(
          "ranks", [](const Object& self) { return self->ranks(); },
          "1, or the size of the cohort.")
      .def_prop_ro(
          "valid_len", [](const Object& self) { return self->valid_len(); },
          "Pages before the first mismatch found.")
      .def_prop_ro(
          "result", [](const Object& self) { return self->result(); },
          nb::sig("def result(self) -> GetResult"),
          "How the prefix came about: its length, the first miss and why.")
      .def(
          "view", [](Object& self, Py_ssize_t i, Py_ssize_t rank) { return self->view(i, rank); },
          nb::arg("i"), nb::arg("rank") = 0,
          nb::sig("def view(self, i: int, rank: int = 0) -> memoryview | None"),
          "The value_len bytes of page i, read-only, zero-copy; checked at the first look, "
          "without\n"
          "the GIL. None: they do not match their checksum. torch.frombuffer(view) would not keep "
          "the\n"
          "memory pinned and would read other values after the release: "
          "torch.from_numpy(array(i)).")
      .def(
          "array",
          [](Object& self, Py_ssize_t i, nb::handle dtype, nb::handle shape, Py_ssize_t rank) {
            return self->array(i, dtype, shape, rank);
          },
          nb::arg("i"), nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
          nb::arg("rank") = 0,
          nb::sig("def array(self, i: int, dtype: Any = None, shape: Any = None, rank: int = 0) -> "
                  "Any"),
          "view(i) as a read-only numpy.ndarray. dtype: default uint8; shape: default 1-D; "
          "together\n"
          "they must make value_len bytes. None: a mismatch. Delete it before release().")
      .def(
          "copy_out",
          [](Object& self, Py_ssize_t i, nb::handle destination, Py_ssize_t rank) {
            return self->copy_out(i, destination.ptr(), rank);
          },
          nb::arg("i"), nb::arg("destination"), nb::arg("rank") = 0,
          nb::sig("def copy_out(self, i: int, destination: Buffer, rank: int = 0) -> bool"),
          "Copies value_len bytes and checks them in one pass, without the GIL. False: a "
          "mismatch,\n"
          "the destination's bytes must not be used.")
      .def(
          "copy_out_all",
          [](Object& self, nb::handle destinations, Py_ssize_t rank) {
            return self->copy_out_all(destinations.ptr(), rank);
          },
          nb::arg("destinations"), nb::arg("rank") = 0,
          nb::sig("def copy_out_all(self, destinations: Buffers, rank: int = 0) -> int"),
          "copy_out for every page, up to the first mismatch. destinations: at least one buffer "
          "per\n"
          "page, or one buffer of len(self) x value_len bytes. Returns the number of pages copied.")
      .def(
          "expected_checksum",
          [](const Object& self, Py_ssize_t i, Py_ssize_t rank) {
            return self->expected_checksum(i, rank);
          },
          nb::arg("i"), nb::arg("rank") = 0, "The 64-bit checksum that page i must have.")
      .def(
          "blob", [](Object& self) { return self->blob(); },
          nb::sig("def blob(self) -> memoryview"),
          "The plan blob, 64-bit words {magic, count, addresses[count]}, page-major (page 0 of "
          "all\n"
          "ranks first); valid until the plan ends.")
      .def(
          "release", [](Object& self) { self->release(true); },
          "Unpins the pages. May be called again. Raises BufferError while arrays over the plan's\n"
          "memory live: the plan is over, its pages stay pinned until the last of them is gone.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> ReadPlan"))
      .def(
          "__exit__",
          [](Object& self, nb::handle type, nb::handle, nb::handle) {
            self->release(type.is_none());
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: Any, value: Any, traceback: Any) -> None"),
          "Releases.");
}

}  // namespace orlop::python
