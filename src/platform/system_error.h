// SPDX-License-Identifier: Apache-2.0
// Turns a failed operating-system call into an Error whose message names the call, the errno in
// words and by name, and what the operator can do about it.
//
//   if (fd < 0) return system_failure("memfd_create(orlop-value)", errno);
//   -> kSystem "memfd_create(orlop-value) failed: Too many open files (EMFILE): raise ..."
//
// Thread: any. Allocates (the message), so not for use between fork and exec.
#pragma once

#include <string>
#include <string_view>

#include "orlop/error.h"

namespace orlop {

// "Too many open files (EMFILE)".
std::string errno_text(int error_number);

// remedy: what to do about it; empty takes the usual remedy for that errno, if there is one.
std::unexpected<Error> system_failure(std::string_view call, int error_number,
                                      std::string_view remedy = {},
                                      ErrorCode code = ErrorCode::kSystem);

}  // namespace orlop
