// SPDX-License-Identifier: Apache-2.0
// An array that grows and is never initialised: reused from call to call on the hot path, where a
// std::vector would write every element before we do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace orlop::client {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  // At least `count` elements, contents undefined.
  std::span<T> fresh(std::size_t count) {
    if (count > capacity_) {
      capacity_ = std::max<std::size_t>(count, 8);
      data_ = std::make_unique_for_overwrite<T[]>(capacity_);
    }
    return {data_.get(), count};
  }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t capacity_ = 0;
};

}  // namespace orlop::client
