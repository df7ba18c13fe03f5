// SPDX-License-Identifier: Apache-2.0
#include "c_api/guard.h"

#include <algorithm>
#include <array>

namespace orlop::c_api {

namespace {

// Without a destructor: usable until the last instruction of the thread.
thread_local std::array<char, kErrorTextBytes> t_text;

// Where to cut: never inside a UTF-8 sequence.
std::size_t cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text.size();
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return end;
}

}  // namespace

orlop_status failed(ErrorCode code, std::string_view text) noexcept {
  const std::size_t size = cut(text, kErrorTextBytes - 1);
  std::copy_n(text.data(), size, t_text.data());
  t_text[size] = '\0';
  return static_cast<orlop_status>(code);
}

const char* last_error_text() noexcept {
  return t_text.data();
}

}  // namespace orlop::c_api
