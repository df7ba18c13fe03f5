// SPDX-License-Identifier: Apache-2.0
// The engine for CPU memory on both sides (page_copier.h, make_host_copier): one thread a
// direction, made with its first job, and where there are several processors one more that takes
// part in large restores. Its copies are those of room copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/page_copier.h"

namespace orlop::gpu {

// An engine waits for a restore, and one thread moves half of what memory can; backups run beside
// the engine's own threads, which want the processors. Waking the second thread costs some ten
// microseconds, copying this some hundred.
inline constexpr std::uint64_t kSharedFromBytes = 4 * 1024 * 1024;

struct HostCopierOptions {
  std::uint64_t shared_from_bytes = kSharedFromBytes;  // of a restore
  bool share = true;                                   // false: never, as with one processor
};
std::unique_ptr<PageCopier> make_host_copier(const HostCopierOptions& options);

// Of one direction; more are refused (kLimit).
inline constexpr std::size_t kMostQueuedJobs = 4096;

}  // namespace orlop::gpu
