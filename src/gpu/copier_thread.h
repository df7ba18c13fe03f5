// SPDX-License-Identifier: Apache-2.0
// Threads of the copiers and of who waits for them (PageCache).
#pragma once

#include <functional>
#include <thread>

#include "orlop/error.h"

namespace orlop::gpu {

// Runs `body` on a thread with this name (at most 15 characters) and all signals blocked: the
// process's handlers and signalfds are not ours to run. kSystem: the limit of threads is reached.
Result<std::thread> start_copier_thread(const char* name, std::function<void()> body);

}  // namespace orlop::gpu
