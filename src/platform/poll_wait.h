// SPDX-License-Identifier: Apache-2.0
// Waiting for one descriptor, with a deadline.
#pragma once

#include "base/ids.h"
#include "orlop/error.h"

namespace orlop {

// Until fd is readable / writable, hung up or in error (true), or the deadline has passed (false).
// A deadline that has passed already only looks. deadline: CLOCK_MONOTONIC, kNever allowed. Signals
// do not end the wait. Errors: kSystem (fd is not open).
Result<bool> wait_readable(int fd, MonoNs deadline);
Result<bool> wait_writable(int fd, MonoNs deadline);

}  // namespace orlop
