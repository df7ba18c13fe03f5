// SPDX-License-Identifier: Apache-2.0
// Takes text apart the way /proc and /sys write it. Views only; nothing is copied.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orlop {

// Cuts the part before the separator off the front, and drops the separator. Without one: all.
inline std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// Cuts the next word off the front; empty at the end. Words end at space, tab or newline.
inline std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// The whole word as an unsigned number, else none.
inline std::optional<std::uint64_t> to_number(std::string_view word, int base = 10) {
  std::uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value, base);
  if (error != std::errc{} || at != end) return std::nullopt;
  return value;
}

}  // namespace orlop
