// SPDX-License-Identifier: Apache-2.0
// Errors and enum members as Python objects. All functions: with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>

#include "orlop/error.h"
#include "orlop/outcome.h"

namespace orlop::python {

namespace nb = nanobind;

// The class of orlop.errors that belongs to the code, with the error's own words.
[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise(ErrorCode code, std::string message);
[[noreturn]] void raise_type(const std::string& message);    // TypeError
[[noreturn]] void raise_buffer(const std::string& message);  // BufferError
[[noreturn]] void raise_forked();

template <class T>
T value_or_raise(Result<T>&& result) {
  if (PyErr_Occurred() != nullptr) [[unlikely]]
    throw nb::python_error();  // a signal handler's, of a wait that it ended
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Members of orlop.Outcome and orlop.MissReason; new references.
PyObject* to_python(Outcome outcome);
PyObject* to_python(MissReason reason);

// A module of ours or numpy's, imported once.
nb::handle imported(const char* module);

}  // namespace orlop::python
