// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <string>

#include "client.h"
#include "seconds.h"

namespace orlop::python {

namespace {

// Text with a NUL inside would be cut off silently.
std::string text_of(const std::optional<std::string>& text, const char* argument) {
  if (!text) return {};
  if (text->find('\0') != std::string::npos)
    raise(ErrorCode::kInvalidArgument, std::string(argument) + ": contains a NUL character");
  return *text;
}

void bind_reads(nb::class_<ClientObject>& type) {
  type.def("get", &ClientObject::get, nb::arg("ns"), nb::arg("keys"), nb::arg("buffers"),
           nb::arg("group_lens") = nb::none(),
           nb::sig("def get(self, ns: Namespace, keys: Keys, buffers: Buffers, "
                   "group_lens: Iterable[int] | None = None) -> int"),
           "Copies the longest readable prefix of keys into the caller's writable buffers.\n\n"
           "keys: 1 to 65,535. buffers: one of value_len bytes per key, or one of\n"
           "len(keys) x value_len bytes. Returns the number of keys copied (0: a miss); buffers "
           "after\n"
           "it are as before or undefined. The GIL is released for 4 KiB and more.")
      .def("get_bytes", &ClientObject::get_bytes, nb::arg("ns"), nb::arg("keys"),
           nb::sig("def get_bytes(self, ns: Namespace, keys: Keys) -> list[bytes]"),
           "The values of the longest readable prefix of keys, copied. Shorter than keys: a miss.")
      .def("get_start", &ClientObject::get_start, nb::arg("ns"), nb::arg("keys"),
           nb::arg("group_lens") = nb::none(),
           nb::sig("def get_start(self, ns: Namespace, keys: Keys, "
                   "group_lens: Iterable[int] | None = None) -> GetHandle"),
           "Pins the longest readable prefix of keys. group_lens: lengths of the reader's groups, "
           "sum\n"
           "= len(keys); the prefix is rounded down to whole groups. No round trip to the node.")
      .def("get_start_cohort", &ClientObject::get_start_cohort, nb::arg("namespaces"),
           nb::arg("keys"), nb::arg("group_lens") = nb::none(),
           nb::sig("def get_start_cohort(self, namespaces: Iterable[Namespace], keys: Keys, "
                   "group_lens: Iterable[int] | None = None) -> GetHandle"),
           "One decision for several ranks of one family: the prefix that every rank has.")
      .def(
          "get_transfer",
          [](const ClientObject& self, HandleBox& handle, std::optional<std::uint32_t> prefix) {
            return PlanObject(self.get_transfer(handle, prefix));
          },
          nb::arg("handle"), nb::arg("consume_prefix_len") = nb::none(),
          nb::sig(
              "def get_transfer(self, handle: GetHandle, consume_prefix_len: int | None = None) "
              "-> ReadPlan"),
          "Turns a handle into a plan. consume_prefix_len: at most transferable_len, on a group\n"
          "boundary; ValueError otherwise, and the handle stays usable.")
      .def("cancel_get", &ClientObject::cancel_get, nb::arg("handle"),
           "Unpins what a handle pinned.")
      .def(
          "read",
          [](const ClientObject& self, const NamespaceBox& ns, nb::handle keys,
             nb::handle group_lens) { return PlanObject(self.read(ns, keys, group_lens)); },
          nb::arg("ns"), nb::arg("keys"), nb::arg("group_lens") = nb::none(),
          nb::sig("def read(self, ns: Namespace, keys: Keys, "
                  "group_lens: Iterable[int] | None = None) -> ReadPlan"),
          "get_start and get_transfer at once: a plan of the longest readable prefix, maybe empty.")
      .def("exists", &ClientObject::exists, nb::arg("ns"), nb::arg("keys"),
           nb::sig("def exists(self, ns: Namespace, keys: Keys) -> ExistsResult"),
           "Which keys are readable now. Pins nothing, asks nobody.");
}

void bind_writes(nb::class_<ClientObject>& type) {
  type.def(
          "put_start",
          [](const ClientObject& self, const NamespaceBox& ns, nb::handle keys, nb::handle lens,
             nb::handle parent, nb::handle deadline) {
            return PlanObject(self.put_start(ns, keys, {lens, parent, deadline}));
          },
          nb::arg("ns"), nb::arg("keys"), nb::arg("group_lens") = nb::none(),
          nb::arg("parent") = nb::none(), nb::arg("deadline") = nb::none(),
          nb::sig("def put_start(self, ns: Namespace, keys: Keys, "
                  "group_lens: Iterable[int] | None = None, parent: Buffer | None = None, "
                  "deadline: float | None = None) -> PutPlan"),
          "Asks the node for memory for keys; one round trip.\n\n"
          "keys: 1 to 65,535, each once, in prefix order. group_lens: lengths of groups that are\n"
          "stored and evicted as a whole, sum = len(keys). parent: the key before keys[0]. "
          "deadline:\n"
          "seconds, default call_budget. Without a node in time all outcomes are NO_NODE.")
      .def(
          "put",
          [](const ClientObject& self, const NamespaceBox& ns, nb::handle keys, nb::handle buffers,
             nb::handle lens,
             nb::handle parent) { return self.put(ns, keys, buffers, {lens, parent, {}}); },
          nb::arg("ns"), nb::arg("keys"), nb::arg("buffers"), nb::arg("group_lens") = nb::none(),
          nb::arg("parent") = nb::none(),
          nb::sig("def put(self, ns: Namespace, keys: Keys, buffers: Buffers, "
                  "group_lens: Iterable[int] | None = None, parent: Buffer | None = None) -> "
                  "list[Outcome]"),
          "Stores one value per key and waits for the outcomes, at most call_budget.\n\n"
          "buffers: one of value_len bytes per key, or one of len(keys) x value_len bytes.")
      .def(
          "remove", &ClientObject::remove, nb::arg("ns"), nb::arg("keys"),
          nb::sig("def remove(self, ns: Namespace, keys: Keys) -> int"),
          "Removes the writers' whole groups of these keys. Returns the number of values removed.\n"
          "Raises NoNode when the node does not answer in time; it may still do it.")
      .def("flush", &ClientObject::flush, nb::arg("ns"), nb::arg("family") = false,
           "Forgets every value of the namespace, or of all ranks of its family. Returns the "
           "number\n"
           "of namespaces. A plan begun after it never sees bytes from before. Raises NoNode.");
}

void init_client(ClientObject* self, const std::optional<std::string>& socket,
                 const std::optional<std::string>& name, double call_budget, double handle_ttl,
                 std::uint32_t ledger_cells, nb::handle on_ready) {
  if (!on_ready.is_none() && PyCallable_Check(on_ready.ptr()) == 0)
    raise_type("on_ready: is not callable");
  ClientOptions options;
  options.socket = text_of(socket, "socket");
  options.name = text_of(name, "name");
  options.call_budget = milliseconds_of(call_budget, "call_budget");
  options.handle_ttl = milliseconds_of(handle_ttl, "handle_ttl");
  options.ledger_cells = ledger_cells;
  new (self) ClientObject(open_client(std::move(options), on_ready));
}

int traverse_client(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<ClientObject>(self)->box().on_ready);
  return 0;
}

PyType_Slot client_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_client)},
                              {0, nullptr}};

}  // namespace

void bind_client(nb::module_& module) {
  nb::class_<ClientObject> type(
      module, "Client", nb::type_slots(client_slots), nb::is_weak_referenceable(),
      "The part of orlop.Client that is written in C++; use orlop.Client.");
  type.def("__init__", init_client, nb::arg("socket") = nb::none(), nb::arg("name") = nb::none(),
           nb::arg("call_budget") = 0.2, nb::arg("handle_ttl") = 30.0,
           nb::arg("ledger_cells") = 1'000'000, nb::arg("on_ready") = nb::none(),
           nb::sig("def __init__(self, socket: str | None = None, name: str | None = None, "
                   "call_budget: float = 0.2, handle_ttl: float = 30.0, "
                   "ledger_cells: int = 1000000, on_ready: Callable[[bool], object] | None = None) "
                   "-> None"))
      .def_prop_ro(
          "ready", [](const ClientObject& self) { return self.usable().ready(); },
          "True while attached to a node that answers.")
      .def(
          "wait_ready", &ClientObject::wait_ready, nb::arg("timeout") = nb::none(),
          "Waits until attached. timeout: seconds, None: for ever. False: not in time. The GIL is\n"
          "released, Ctrl-C raises KeyboardInterrupt.")
      .def_prop_ro(
          "last_attach_error",
          [](const ClientObject& self) { return self.usable().last_attach_error().message; },
          "Why not ready: the words of the last attempt to attach.")
      .def_prop_ro(
          "segment_id", [](const ClientObject& self) { return self.usable().segment_id(); },
          "Identity of the node's memory contents; 0 while not attached.")
      .def_prop_ro(
          "incarnation", [](const ClientObject& self) { return self.usable().incarnation(); },
          "Identity of the node's present life, changed by every start; 0 before the first attach "
          "and\n"
          "after the memory is gone.")
      .def("_open_namespace", [](const ClientObject& self,
                                 const std::string& json) { return self.open_namespace(json); })
      .def(
          "stats", [](const ClientObject& self) { return self.usable().stats(); },
          nb::sig("def stats(self) -> Stats"), "Counters of this client since it was opened.")
      .def(
          "ping",
          [](const ClientObject& self) {
            Client& client = self.usable();
            Result<void> answered;
            {
              const GilRelease others;
              answered = client.ping();
            }
            value_or_raise(std::move(answered));
          },
          "One round trip to the node. Raises NoNode when it does not answer within call_budget.")
      .def(
          "close", [](const ClientObject& self) { close_client(self.box()); },
          "Ends every plan and handle, waits at most call_budget for commits in flight, detaches.\n"
          "Copies of other threads end before. May be called again, also by a signal handler: the "
          "call\n"
          "that it interrupted then raises Closed. Memory under living arrays stays until they are "
          "gone.");
  bind_reads(type);
  bind_writes(type);
}

}  // namespace orlop::python
