// SPDX-License-Identifier: Apache-2.0
// Internal to room copy: the inner loops of one kind, as a table of functions.
//
// Common contract of every loop:
//  - any alignment of dst and src, any length, 0 included; nothing outside [p, p + bytes) is read
//    or written;
//  - each byte of src is loaded exactly once: what is written is what was summed, even if another
//    process changes src meanwhile (the sum then matches the copy, whatever it became);
//  - returns S of checksum.h.
// Requires: dst and src do not overlap; the CPU has the kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "copy/row_run.h"

namespace orlop {

struct CopyKernels {
  // S only. first_word: even; where src begins inside its value.
  std::uint64_t (*sum)(const std::byte* src, std::size_t bytes, std::uint64_t first_word);
  // Copies a whole value with ordinary stores.
  std::uint64_t (*copy)(std::byte* dst, const std::byte* src, std::size_t bytes);
  // Copies a whole value with non-temporal stores and ends with sfence: a later release store is
  // ordered after the bytes.
  std::uint64_t (*stream)(std::byte* dst, const std::byte* src, std::size_t bytes);
  // Copies rows of a value with ordinary stores.
  std::uint64_t (*rows)(const RowRun& run);
  // The same with non-temporal stores, where they pay, and no sfence at the end.
  std::uint64_t (*stream_rows)(const RowRun& run);
  // The sfence that is still due.
  void (*fence)();
};

extern const CopyKernels kScalarKernels;
#if defined(__x86_64__)
extern const CopyKernels kAvx2Kernels;
extern const CopyKernels kAvx512Kernels;
#endif

}  // namespace orlop
