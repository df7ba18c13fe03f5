// SPDX-License-Identifier: Apache-2.0
// Structs that name their own size, so that header and library may be of different versions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "orlop/error.h"

namespace orlop::c_api {

// No struct of ours comes near it: a larger size is garbage, and its tail may not be there to read.
inline constexpr std::size_t kMaxStructBytes = 4096;

// size: what the caller wrote. first: bytes of the struct in the first header that had it.
Result<void> check_struct_size(std::string_view argument, std::size_t size, std::size_t first);
// Bytes from `known` to `size` are zero. Requires: check_struct_size passed.
Result<void> check_struct_tail(std::string_view argument, const void* given, std::size_t size,
                               std::size_t known);

// An argument. kFirst: as above; fields beyond the caller's size are zero, which is their default.
// Requires: given is not null.
template <class Struct, std::size_t kFirst = sizeof(Struct)>
Result<Struct> read_struct(std::string_view argument, const Struct* given) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (auto checked = check_struct_size(argument, size, kFirst); !checked)
    return std::unexpected(checked.error());
  if (auto checked = check_struct_tail(argument, given, size, sizeof(Struct)); !checked)
    return std::unexpected(checked.error());
  Struct read{};
  std::memcpy(&read, given, std::min(size, sizeof(Struct)));
  return read;
}

// A result; its struct_size stays what the caller wrote. Requires: check_struct_size passed.
template <class Struct>
void write_struct(Struct* out, Struct value) {
  const std::size_t size = out->struct_size;
  value.struct_size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(Struct)));
  if (size > sizeof(Struct))
    std::memset(reinterpret_cast<std::byte*>(out) + sizeof(Struct), 0, size - sizeof(Struct));
}

}  // namespace orlop::c_api
