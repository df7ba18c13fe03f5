// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <nanobind/stl/string.h>

namespace orlop::python {

namespace {

std::string place(const char* argument, Py_ssize_t index) {
  if (index < 0) return argument;
  return std::string(argument) + "[" + std::to_string(index) + "]";
}

[[noreturn]] void raise_invalid(const std::string& message) {
  raise(ErrorCode::kInvalidArgument, message);
}

}  // namespace

HeldBuffer::HeldBuffer(PyObject* object, Use use, const char* argument, Py_ssize_t index) {
  if (PyObject_CheckBuffer(object) == 0) {
    raise_type(place(argument, index) + ": is of type " + Py_TYPE(object)->tp_name +
               ", which has no buffer; give bytes, bytearray, memoryview or an array");
  }
  // PyBUF_SIMPLE: the exporter itself refuses what is not C-contiguous.
  if (PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) != 0) {
    const nb::python_error why;
    raise_invalid(place(argument, index) + ": is not one C-contiguous piece of memory (" +
                  nb::cast<std::string>(nb::str(why.value())) + "); copy it first");
  }
  if (use == Use::kWrite && view_.readonly != 0) {
    PyBuffer_Release(&view_);
    raise_invalid(place(argument, index) + ": is read-only; give a writable buffer");
  }
}

BufferList::BufferList(PyObject* buffers, Use use, std::size_t keys, std::uint32_t value_len) {
  if (PyObject_CheckBuffer(buffers) != 0) {
    const std::span<std::byte> all = held_.emplace_back(buffers, use, "buffers").bytes();
    if (keys == 1) {  // its length is checked by the library
      spans_.push_back(all);
      return;
    }
    if (all.size() != keys * value_len) {
      raise_invalid("buffers: is one buffer of " + std::to_string(all.size()) + " bytes for " +
                    std::to_string(keys) + " keys; the namespace's value_len is " +
                    std::to_string(value_len) + ", so give " + std::to_string(keys * value_len));
    }
    for (std::size_t i = 0; i < keys; ++i) spans_.push_back(all.subspan(i * value_len, value_len));
    return;
  }
  PyObject* const sequence = PySequence_Fast(buffers, "");
  if (sequence == nullptr) {
    const nb::python_error why;
    if (!why.matches(PyExc_TypeError)) throw why;
    raise_type(std::string("buffers: is of type ") + Py_TYPE(buffers)->tp_name +
               "; give an iterable of buffers or one buffer for all keys");
  }
  const nb::object owner = nb::steal(sequence);
  held_.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence)));
  spans_.reserve(held_.capacity());
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(sequence, i));
    spans_.push_back(held_.emplace_back(item.ptr(), use, "buffers", i).bytes());
  }
}

}  // namespace orlop::python
