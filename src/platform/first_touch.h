// SPDX-License-Identifier: Apache-2.0
// Makes a mapping resident before it is used, by several threads, visibly.
//
// Guarantees: contents are unchanged, also when other processes write the memory meanwhile. Every
// page is present and writable in this process afterwards, or an error is returned.
// Requires: a writable mapping; memory.budget checked (beyond a cgroup's limit the kernel kills).
// Uses MADV_POPULATE_WRITE (Linux 5.14) and, where that is unknown, one atomic write of nothing
// per page.
#pragma once

#include <cstdint>
#include <functional>

#include "orlop/error.h"
#include "platform/mapping.h"

namespace orlop {

// Called on the calling thread, about once a chunk that this thread finishes, and once at the end
// with done == total. Returning false stops the touch (kClosed); pages touched so far stay.
using TouchProgress = std::function<bool(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

struct TouchOptions {
  unsigned threads = 0;  // 0: the CPUs this process may use; at most kMaxTouchThreads
  std::uint64_t chunk_bytes = 64ull * 1024 * 1024;  // multiple of 2 MiB; a progress report's grain
  TouchProgress progress = {};                      // may be empty
  bool populate = true;                             // false: the fallback (for tests)
};
// Page zeroing saturates memory well below this on the machines we know.
inline constexpr unsigned kMaxTouchThreads = 64;

struct TouchReport {
  std::uint64_t bytes = 0;
  unsigned threads = 0;
  bool populated = false;  // false: fell back to touching page by page
};

// Errors: kNoMemory (out of memory or of reserved huge pages), kClosed (progress said stop),
// kInvalidArgument, kSystem.
Result<TouchReport> first_touch(const Mapping& mapping, const TouchOptions& options);

}  // namespace orlop
