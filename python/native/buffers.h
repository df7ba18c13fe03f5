// SPDX-License-Identifier: Apache-2.0
// Buffers that Python code hands to a call: held (Py_buffer) while the call runs, so that a
// bytearray cannot be resized and an array not freed while the GIL is given up.
//
// All of it: with the GIL. Errors: TypeError for what is no buffer; ValueError, in the words of the
// C++ library, for what does not fit.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "errors.h"

namespace orlop::python {

enum class Use : std::uint8_t { kRead, kWrite };

// One held buffer. argument: its name in messages.
class HeldBuffer {
 public:
  HeldBuffer(PyObject* object, Use use, const char* argument, Py_ssize_t index = -1);
  ~HeldBuffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  HeldBuffer(HeldBuffer&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  HeldBuffer& operator=(HeldBuffer&&) = delete;

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// One buffer per key: an iterable of buffers, or one C-contiguous buffer of keys x value_len bytes
// (for one key: the buffer itself).
class BufferList {
 public:
  BufferList(PyObject* buffers, Use use, std::size_t keys, std::uint32_t value_len);
  std::span<const std::span<std::byte>> writable() const { return spans_; }
  std::vector<std::span<const std::byte>> readable() const {
    return {spans_.begin(), spans_.end()};
  }

 private:
  std::vector<HeldBuffer> held_;
  std::vector<std::span<std::byte>> spans_;
};

}  // namespace orlop::python
