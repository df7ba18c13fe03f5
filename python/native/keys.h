// SPDX-License-Identifier: Apache-2.0
// Keys as Python code gives them, as the library takes them, without a copy of their bytes.
//
// Accepted: one bytes-like object (one key); PackedKeys; a C-contiguous 2-D buffer of bytes (a row
// is a key); an iterable of bytes-like objects.
// All of it: with the GIL. The objects behind the keys are held until the KeyList ends.
#pragma once

#include <Python.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "buffers.h"
#include "orlop/client.h"

namespace orlop::python {

// Keys of one length behind each other in one buffer, which is held as long as this object.
class PackedKeys {
 public:
  // Errors: ValueError when key_len is outside 1..4096 or the buffer is not a multiple of it.
  PackedKeys(nb::handle buffer, Py_ssize_t key_len);
  std::size_t size() const { return held_.bytes().size() / key_len_; }
  std::size_t key_len() const { return key_len_; }
  Key operator[](std::size_t i) const {
    return {reinterpret_cast<const char*>(held_.bytes().data()) + i * key_len_, key_len_};
  }

 private:
  HeldBuffer held_;
  std::size_t key_len_;
};

class KeyList {
 public:
  explicit KeyList(nb::handle keys);
  ~KeyList();
  KeyList(const KeyList&) = delete;
  KeyList& operator=(const KeyList&) = delete;

  std::span<const Key> keys() const { return single_ ? std::span(&one_, 1) : many_; }
  std::size_t size() const { return keys().size(); }

 private:
  struct Scratch {
    std::vector<Key> keys;
    std::vector<PyObject*> objects;  // bytes objects, referenced
    std::vector<HeldBuffer> buffers;
  };
  void add_packed(const PackedKeys& packed);
  bool add_rows(PyObject* object);
  void add_items(PyObject* iterable);
  void add_item(PyObject* item, Py_ssize_t index);
  void take_scratch();
  void let_go();
  static std::vector<std::unique_ptr<Scratch>>& spare();

  bool single_ = false;
  Key one_;
  PyObject* owner_ = nullptr;  // the bytes object of `one_`
  std::span<const Key> many_;
  std::unique_ptr<Scratch> scratch_;
};

void bind_packed_keys(nb::module_& module);

}  // namespace orlop::python
