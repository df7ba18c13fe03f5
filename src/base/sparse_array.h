// SPDX-License-Identifier: Apache-2.0
// A zero-initialised array whose pages become resident only when written: per-slot bookkeeping
// indexed by slot id, where most ids of a segment may never be used.
//
// Guarantees: element i reads as all-zero bytes until written. Never moves, never grows.
// Requires: T trivially copyable, all-zero bytes a valid T. Thread: none; the owner synchronises.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "base/check.h"

namespace orlop {

template <class T>
class SparseArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SparseArray() = default;
  explicit SparseArray(std::size_t size)
      // calloc of a large block is a fresh anonymous mapping: no page is touched here.
      : data_(static_cast<T*>(std::calloc(size == 0 ? 1 : size, sizeof(T)))), size_(size) {
    CHECK(data_ != nullptr, "address space for per-slot bookkeeping");
  }
  T& operator[](std::size_t i) {
    DCHECK(i < size_);
    return data_.get()[i];
  }
  const T& operator[](std::size_t i) const {
    DCHECK(i < size_);
    return data_.get()[i];
  }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace orlop
