// SPDX-License-Identifier: Apache-2.0
// Takes an input apart into numbers, choices and byte strings; InputWriter makes such inputs.
//
// What lies beyond the end reads as 0 or empty, so that every input is a valid one and a shorter
// input is a simpler one. Native endian.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace orlop::fuzz {

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> from = bytes(sizeof(T));
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  // One byte: 0..limit-1. limit: 1..256.
  std::uint32_t below(std::uint32_t limit) {
    CHECK(limit >= 1 && limit <= 256);
    return take<std::uint8_t>() % limit;
  }
  bool flag() { return below(2) == 1; }
  // The next bytes, fewer at the end.
  std::span<const std::byte> bytes(std::size_t most) {
    const std::span<const std::byte> taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::string_view text(std::size_t most) {
    const std::span<const std::byte> taken = bytes(most);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // A length byte, then so many bytes.
  std::string_view short_text() { return text(take<std::uint8_t>()); }
  std::span<const std::byte> short_bytes() { return bytes(take<std::uint8_t>()); }

 private:
  std::span<const std::byte> rest_;
};

class InputWriter {
 public:
  template <class T>
  InputWriter& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return bytes(std::as_bytes(std::span(&value, 1)));
  }
  InputWriter& byte(std::uint32_t value) { return put(static_cast<std::uint8_t>(value)); }
  InputWriter& bytes(std::span<const std::byte> from) {
    bytes_.insert(bytes_.end(), from.begin(), from.end());
    return *this;
  }
  InputWriter& short_bytes(std::span<const std::byte> from) {
    CHECK(from.size() < 256);
    return byte(static_cast<std::uint32_t>(from.size())).bytes(from);
  }
  InputWriter& short_text(std::string_view text) {
    return short_bytes(std::as_bytes(std::span(text)));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace orlop::fuzz
