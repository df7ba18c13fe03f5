// SPDX-License-Identifier: Apache-2.0
// Reads whole text files of /proc and /sys.
#pragma once

#include <cstddef>
#include <string>

#include "orlop/error.h"

namespace orlop {

// smaps of a process with a few thousand mappings is some MiB.
inline constexpr std::size_t kMaxTextFileBytes = 64u * 1024 * 1024;

// Errors: kSystem (call and errno), kLimit (longer than max_bytes).
Result<std::string> read_text_file(const std::string& path,
                                   std::size_t max_bytes = kMaxTextFileBytes);

}  // namespace orlop
