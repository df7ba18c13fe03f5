// SPDX-License-Identifier: Apache-2.0
#include "keys.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

namespace orlop::python {

namespace {

constexpr std::size_t kMaxKeys = 65'535;    // of one call: include/orlop/client.h
constexpr std::size_t kMaxKeyBytes = 4096;  // likewise
constexpr std::size_t kSpareScratch = 4;    // threads that are inside of a call at once, mostly
constexpr std::size_t kSpareScratchKeys = 65'536;

[[noreturn]] void raise_invalid(const std::string& message) {
  raise(ErrorCode::kInvalidArgument, message);
}

void check_count(std::size_t count) {
  if (count <= kMaxKeys) return;
  raise_invalid("keys: has " + std::to_string(count) + " keys, at most " +
                std::to_string(kMaxKeys) + " go into one call; split it");
}

Key key_of_bytes(PyObject* object) {
  return {PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
}

Key key_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t checked_key_len(Py_ssize_t key_len) {
  if (key_len >= 1 && static_cast<std::size_t>(key_len) <= kMaxKeyBytes)
    return static_cast<std::size_t>(key_len);
  raise_invalid("key_len: is " + std::to_string(key_len) + ", allowed are 1 to " +
                std::to_string(kMaxKeyBytes));
}

}  // namespace

PackedKeys::PackedKeys(nb::handle buffer, Py_ssize_t key_len)
    : held_(buffer.ptr(), Use::kRead, "buffer"), key_len_(checked_key_len(key_len)) {
  if (held_.bytes().size() % key_len_ == 0) return;
  raise_invalid("buffer: has " + std::to_string(held_.bytes().size()) +
                " bytes, which is not a multiple of key_len " + std::to_string(key_len_));
}

// The GIL guards it. Never freed: KeyLists may outlive statics at the end of the process.
std::vector<std::unique_ptr<KeyList::Scratch>>& KeyList::spare() {
  static auto* const list = new std::vector<std::unique_ptr<Scratch>>;
  return *list;
}

void KeyList::take_scratch() {
  if (spare().empty()) {
    scratch_ = std::make_unique<Scratch>();
    return;
  }
  scratch_ = std::move(spare().back());
  spare().pop_back();
}

KeyList::KeyList(nb::handle keys) {
  PyObject* const object = keys.ptr();
  if (PyBytes_CheckExact(object)) {
    single_ = true;
    owner_ = Py_NewRef(object);
    one_ = key_of_bytes(object);
    return;
  }
  take_scratch();
  try {
    if (nb::isinstance<PackedKeys>(keys)) {
      add_packed(nb::cast<const PackedKeys&>(keys));
      scratch_->objects.push_back(Py_NewRef(object));
    } else if (PyList_Check(object) || PyTuple_Check(object) || !add_rows(object)) {
      add_items(object);
    }
  } catch (...) {
    let_go();
    throw;
  }
  many_ = scratch_->keys;
}

KeyList::~KeyList() {
  let_go();
}

void KeyList::let_go() {
  Py_XDECREF(owner_);
  if (scratch_ == nullptr) return;
  std::unique_ptr<Scratch> scratch = std::move(scratch_);
  for (PyObject* const held : scratch->objects) Py_DECREF(held);
  scratch->objects.clear();
  scratch->buffers.clear();
  scratch->keys.clear();
  if (spare().size() < kSpareScratch && scratch->keys.capacity() <= kSpareScratchKeys)
    spare().push_back(std::move(scratch));
}

void KeyList::add_packed(const PackedKeys& packed) {
  check_count(packed.size());
  scratch_->keys.resize(packed.size());
  for (std::size_t i = 0; i < packed.size(); ++i) scratch_->keys[i] = packed[i];
}

// A buffer: 1-D is one key, 2-D has one key a row. False: it is no buffer.
bool KeyList::add_rows(PyObject* object) {
  if (PyObject_CheckBuffer(object) == 0) return false;
  Py_buffer shape{};
  if (PyObject_GetBuffer(object, &shape, PyBUF_STRIDES) != 0) {
    const nb::python_error why;
    raise_invalid("keys: its memory cannot be had (" + nb::cast<std::string>(nb::str(why.value())) +
                  ")");
  }
  const int dimensions = shape.ndim;
  const Py_ssize_t item = shape.itemsize;
  const Py_ssize_t rows = dimensions == 2 ? shape.shape[0] : 1;
  const Py_ssize_t length = dimensions == 2 ? shape.shape[1] : shape.len;
  PyBuffer_Release(&shape);
  if (dimensions < 1 || dimensions > 2 || item != 1) {
    raise_type("keys: is a buffer of " + std::to_string(dimensions) + " dimensions with items of " +
               std::to_string(item) +
               " bytes; give 2-D bytes (uint8, a row is a key), PackedKeys, or an iterable of "
               "bytes-like objects");
  }
  check_count(static_cast<std::size_t>(rows));
  const Key all = key_of(scratch_->buffers.emplace_back(object, Use::kRead, "keys").bytes());
  for (Py_ssize_t i = 0; i < rows; ++i)
    scratch_->keys.push_back(
        all.substr(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length)));
  return true;
}

void KeyList::add_items(PyObject* iterable) {
  if (PyList_Check(iterable) || PyTuple_Check(iterable)) {
    check_count(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(iterable)));
    scratch_->keys.reserve(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(iterable)));
    scratch_->objects.reserve(scratch_->keys.capacity());
    // The size is asked for again each time: asking an item for its buffer may run Python code.
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(iterable); ++i)
      add_item(PySequence_Fast_GET_ITEM(iterable, i), i);
    return;
  }
  if (PyUnicode_Check(iterable) || PyIter_Check(iterable) == 0) {
    // str is an iterable of str: say what is meant, not what its first item is.
    if (PyUnicode_Check(iterable) || Py_TYPE(iterable)->tp_iter == nullptr) {
      raise_type(std::string("keys: is of type ") + Py_TYPE(iterable)->tp_name +
                 "; give bytes-like keys: an iterable of them, PackedKeys, or 2-D uint8");
    }
  }
  const nb::object iterator = nb::steal(PyObject_GetIter(iterable));
  if (!iterator.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0;; ++i) {
    const nb::object item = nb::steal(PyIter_Next(iterator.ptr()));
    if (!item.is_valid()) break;
    check_count(static_cast<std::size_t>(i) + 1);
    add_item(item.ptr(), i);
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
}

void KeyList::add_item(PyObject* item, Py_ssize_t index) {
  if (PyBytes_CheckExact(item)) {
    scratch_->objects.push_back(Py_NewRef(item));
    scratch_->keys.push_back(key_of_bytes(item));
    return;
  }
  const nb::object alive = nb::borrow(item);
  scratch_->keys.push_back(
      key_of(scratch_->buffers.emplace_back(item, Use::kRead, "keys", index).bytes()));
}

void bind_packed_keys(nb::module_& module) {
  nb::class_<PackedKeys>(
      module, "PackedKeys",
      "Keys of one length behind each other in one buffer: the cheapest form of many keys.\n\n"
      "The buffer is held, not copied: while this object lives a bytearray cannot be resized, and\n"
      "changing its bytes changes the keys. Shape: len(self) x key_len bytes.")
      .def(nb::init<nb::handle, Py_ssize_t>(), nb::arg("buffer"), nb::arg("key_len"),
           nb::sig("def __init__(self, buffer: Buffer, key_len: int) -> None"),
           "key_len: bytes of one key, 1 to 4096. Raises ValueError when the buffer is not a\n"
           "multiple of it, TypeError when it is no buffer.")
      .def("__len__", &PackedKeys::size)
      .def(
          "__getitem__",
          [](const PackedKeys& self, Py_ssize_t i) {
            const auto size = static_cast<Py_ssize_t>(self.size());
            if (i < -size || i >= size) throw nb::index_error("PackedKeys: index out of range");
            const Key key = self[static_cast<std::size_t>(i < 0 ? i + size : i)];
            return nb::bytes(key.data(), key.size());
          },
          nb::arg("i"), "Key i as bytes (a copy).")
      .def_prop_ro("key_len", &PackedKeys::key_len, "Bytes of one key.");
}

}  // namespace orlop::python
