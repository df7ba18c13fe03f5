// SPDX-License-Identifier: Apache-2.0
// The engines for memory of a GPU behind one PageCopier: every request goes to staged, direct or
// pieces (page_copier.h), by the machine's table of measurements unless one is asked for.
//
// Resources of a copier: two lanes (one a direction), each with a stream of copies, an urgent
// stream of kernels and a ring of staging memory; one thread that looks after jobs while there are
// any. Submission: the caller's thread submits until callers_bytes are on their way, the copier's
// thread the rest, as long as less than window_bytes are; so a cancel leaves at most the window to
// be copied, and what stream_wait() asked for beyond it. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "gpu/engine_table.h"
#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

struct CudaCopierOptions {
  int device = 0;
  std::optional<EngineKind> engine{};  // none: by the table
  EngineTable table = default_engine_table();
  std::uint64_t staging_bytes = 192 << 20;  // of GPU memory, a direction
  // Submitted and not yet copied, a direction: ~10 ms of a PCIe 5 x16 link.
  std::uint64_t window_bytes = 512 << 20;
  // If not 0, backups go in slices of at most so many bytes, at least kLeastBackupBurst, one at a
  // time instead of the window: a copy engine that has nothing queued looks at other streams.
  std::uint64_t backup_burst_bytes = 0;
  // Of the window, what submit() puts on its way itself: some ms of the link. The copier's thread
  // follows with the rest, so that the caller, and a job of the other direction, need not wait.
  std::uint64_t callers_bytes = 128 << 20;
  // Of the ring. Each slice costs the link some microseconds: few and long ones.
  unsigned slots = 3;
  unsigned blocks = 8;  // of a kernel, 1..kMostMoveBlocks
};

class CudaCopier : public PageCopier {
 public:
  struct Stats {
    std::uint64_t jobs[kEngineKindCount] = {};  // by the engine they went to
    std::uint64_t slices = 0, copy_calls = 0, bytes = 0;
    double submit_seconds = 0;  // that submitting slices took, in callers' threads and the copier's
  };
  // EngineKind of a request, as submit() would choose now. adjacent: values follow each other in
  // memory.
  virtual EngineKind engine_for(const CompiledLayout& layout, CopyDirection direction,
                                std::size_t values, bool adjacent) const = 0;
  virtual Stats stats() const = 0;
};

// Errors: kInvalidArgument (options), kSystem (no driver, no device, a CUDA call: named), kNoMemory
// (the rings).
Result<std::unique_ptr<CudaCopier>> make_cuda_copier(const CudaCopierOptions& options);

}  // namespace orlop::gpu
