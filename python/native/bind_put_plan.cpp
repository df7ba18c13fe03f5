// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>

#include "put_plan.h"

namespace orlop::python {

using Object = PlanObject<PutPlanBox>;

void bind_put_plan(nb::module_& module) {
  nb::class_<Object>(
      module, "PutPlan",
      "Memory of one put: write it, then commit. A context manager: leaving the block without a\n"
      "commit aborts.\n\n"
      "Key i has memory when outcomes[i] is PREPARED. memory(i) and array(i) are the node's "
      "shared\n"
      "memory itself. commit() and abort() release the memoryviews that were handed out: using "
      "them\n"
      "afterwards raises ValueError. An array cannot be told: while one lives, commit() raises\n"
      "BufferError and the plan stays open. After its end every call raises WrongState.")
      .def(
          "__len__", [](const Object& self) { return self->size(); }, "Keys of the put.")
      .def_prop_ro(
          "prepared", [](const Object& self) { return self->prepared(); },
          "Number of keys that got memory.")
      .def_prop_ro(
          "outcomes", [](const Object& self) { return self->outcomes(); },
          nb::sig("def outcomes(self) -> list[Outcome]"),
          "One Outcome per key: PREPARED, or why there is no memory.")
      .def_prop_ro(
          "explanation", [](const Object& self) { return self->explanation(); },
          "Of NO_SPACE, OVER_QUOTA and NO_NODE: the state of things in words; else empty.")
      .def(
          "memory", [](Object& self, Py_ssize_t i) { return self->view(i); }, nb::arg("i"),
          nb::sig("def memory(self, i: int) -> memoryview"),
          "The value_len bytes of key i, writable, zero-copy. Its checksum is then computed at\n"
          "commit. Raises ValueError when key i got no memory. torch.frombuffer(view) would not "
          "hold\n"
          "the memory and would write into other values after the commit: "
          "torch.from_numpy(array(i)).")
      .def(
          "array",
          [](Object& self, Py_ssize_t i, nb::handle dtype, nb::handle shape) {
            return self->array(i, dtype, shape);
          },
          nb::arg("i"), nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
          nb::sig("def array(self, i: int, dtype: Any = None, shape: Any = None) -> Any"),
          "memory(i) as a writable numpy.ndarray. dtype: default uint8; shape: default 1-D; "
          "together\n"
          "they must make value_len bytes. Delete it before commit().")
      .def(
          "copy_in",
          [](Object& self, Py_ssize_t i, nb::handle source) { self->copy_in(i, source.ptr()); },
          nb::arg("i"), nb::arg("source"),
          nb::sig("def copy_in(self, i: int, source: Buffer) -> None"),
          "Copies value_len bytes and computes their checksum in one pass, without the GIL. "
          "Raises\n"
          "ValueError when key i got no memory or source is not value_len bytes long.")
      .def(
          "copy_in_all",
          [](Object& self, nb::handle sources) { return self->copy_in_all(sources.ptr()); },
          nb::arg("sources"), nb::sig("def copy_in_all(self, sources: Buffers) -> int"),
          "copy_in for every prepared key. sources: one buffer per key, or one buffer of\n"
          "len(self) x value_len bytes. Returns the number of keys copied.")
      .def(
          "set_checksum",
          [](Object& self, Py_ssize_t i, std::uint64_t checksum) {
            self->set_checksum(i, checksum);
          },
          nb::arg("i"), nb::arg("checksum"),
          "The 64-bit checksum of memory(i), computed elsewhere (a GPU kernel).")
      .def(
          "blob", [](Object& self) { return self->blob(); },
          nb::sig("def blob(self) -> memoryview"),
          "The plan blob, 64-bit words {magic, count, addresses[count]} of the prepared keys in "
          "key\n"
          "order; valid until the plan ends.")
      .def(
          "commit", [](Object& self) { return self->commit(); },
          nb::sig("def commit(self) -> Future"),
          "Makes the values readable; posts and returns. Raises BufferError while arrays over the\n"
          "plan's memory live (the plan stays open).")
      .def(
          "abort", [](Object& self) { self->abort(true); },
          "Gives the memory back. May be called again. Raises BufferError while arrays over the\n"
          "plan's memory live: the plan is over, its memory goes with the last of them.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> PutPlan"))
      .def(
          "__exit__",
          [](Object& self, nb::handle type, nb::handle, nb::handle) {
            self->abort(type.is_none());
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: Any, value: Any, traceback: Any) -> None"),
          "Aborts what was not committed.");
}

}  // namespace orlop::python
