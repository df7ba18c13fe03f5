// SPDX-License-Identifier: Apache-2.0
#include "c_api/structs.h"

namespace orlop::c_api {

Result<void> check_struct_size(std::string_view argument, std::size_t size, std::size_t first) {
  if (size >= first && size <= kMaxStructBytes) return {};
  return fail(ErrorCode::kInvalidArgument,
              std::string(argument) + ".struct_size: is " + std::to_string(size) +
                  ", allowed are " + std::to_string(first) + " to " +
                  std::to_string(kMaxStructBytes) + "; set it to sizeof of the struct");
}

Result<void> check_struct_tail(std::string_view argument, const void* given, std::size_t size,
                               std::size_t known) {
  const auto* bytes = static_cast<const std::byte*>(given);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] == std::byte{0}) continue;
    return fail(ErrorCode::kInvalidArgument,
                std::string(argument) + ": byte " + std::to_string(i) + " of " +
                    std::to_string(size) + " is set, this library knows " + std::to_string(known) +
                    "; leave newer fields zero or use the library of that header");
  }
  return {};
}

}  // namespace orlop::c_api
