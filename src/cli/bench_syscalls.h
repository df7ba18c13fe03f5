// SPDX-License-Identifier: Apache-2.0
// Proof that a piece of code makes no system call: the kernel hands every system call of the
// calling thread to a signal handler (PR_SET_SYSCALL_USER_DISPATCH, Linux 5.11, x86-64).
#pragma once

#include <cstdint>
#include <functional>

#include "orlop/error.h"

namespace orlop::cli {

// Runs `body` and says whether the calling thread entered the kernel by a system call meanwhile.
// The first one is seen and carried out; those behind it are not looked for. The time of day is
// read without one (vDSO). Not for two threads at once.
// Errors: kRefused (this kernel or CPU cannot tell), kSystem.
Result<bool> makes_system_calls(const std::function<void()>& body);

}  // namespace orlop::cli
