// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <nanobind/stl/string.h>

#include <array>
#include <map>
#include <string_view>

namespace orlop::python {

nb::handle imported(const char* module) {
  // Never freed: modules may be gone before statics at the end of the process.
  static auto* const modules = new std::map<std::string, PyObject*, std::less<>>;
  if (const auto found = modules->find(std::string_view(module)); found != modules->end())
    return found->second;
  PyObject* const made = nb::module_::import_(module).release().ptr();
  modules->emplace(module, made);
  return made;
}

void raise(ErrorCode code, std::string message) {
  const nb::object make = imported("orlop.errors").attr("make");
  const nb::object error = make(static_cast<int>(code), message);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void raise(const Error& error) {
  raise(error.code, error.message);
}

void raise_type(const std::string& message) {
  PyErr_SetString(PyExc_TypeError, message.c_str());
  throw nb::python_error();
}

void raise_buffer(const std::string& message) {
  PyErr_SetString(PyExc_BufferError, message.c_str());
  throw nb::python_error();
}

void raise_forked() {
  raise(ErrorCode::kForkedChild,
        "this object was made by the parent of this process; open a new Client here");
}

namespace {

// Python's members of an IntEnum of orlop.outcomes, by value.
template <int kCount>
PyObject* member(const char* name, int value) {
  static std::array<PyObject*, kCount> members{};
  PyObject*& cached = members.at(static_cast<std::size_t>(value));
  if (cached == nullptr) cached = imported("orlop.outcomes").attr(name)(value).release().ptr();
  return Py_NewRef(cached);
}

}  // namespace

PyObject* to_python(Outcome outcome) {
  return member<kOutcomeCount>("Outcome", static_cast<int>(outcome));
}
PyObject* to_python(MissReason reason) {
  return member<kMissReasonCount + 1>("MissReason", static_cast<int>(reason));
}

}  // namespace orlop::python
