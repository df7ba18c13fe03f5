// SPDX-License-Identifier: Apache-2.0
// The engine for CPU memory on both sides (page_copier.h, make_host_copier): one thread a
// direction, made with its first job. Its copies are those of room copy.
#pragma once

#include <cstddef>

#include "gpu/page_copier.h"

namespace orlop::gpu {

// Of one direction; more are refused (kLimit).
inline constexpr std::size_t kMostQueuedJobs = 4096;

}  // namespace orlop::gpu
