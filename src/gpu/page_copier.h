// SPDX-License-Identifier: Apache-2.0
// Moves whole values between value memory and an engine's paged cache, and sums their checksum. One
// interface, four engines; all but `pieces` sum in the pass that copies:
//
//   host    both sides are CPU memory; room `copy` on a thread of its own. No CUDA needed.
//   staged  the default on a GPU: copy engines move long strips between the segment and a ring of
//           GPU memory, a small kernel scatters or gathers them inside it and sums the checksum.
//   direct  a few thread blocks read and write host memory themselves: short batches.
//   pieces  copy engines on the pieces themselves: few, large pieces (>= 256 KiB); a kernel then
//           reads the cache for the checksum.
//
// What all guarantee
//   * Nothing but the bytes of the named pages and values is written. A layout's padding is left.
//   * A job is done when no device and no thread will touch its memory again. That, and not the
//     cancel, is when plans may end.
//   * raw_sums()[i] is S (copy/checksum.h) over exactly the bytes that this job moved for value i:
//     in a backup those written to the value, in a restore those written to the pages. With
//     `pieces` only if nobody writes the pages meanwhile; the sum then fits nothing.
//   * cancel() submits nothing more; what was submitted completes, then the job is done.
//   * Jobs of one direction run in the order of submission; the two directions run side by side.
//   * No call blocks on the device but wait(), the destructor of a copier (which waits for its
//     jobs) and a submit() whose CUDA calls fail (which waits for what it had begun).
// Requires: layout, values and pages stay valid until the job is done; value memory is registered
// (host_registration.h) for the CUDA engines; nobody else writes what is being written.
// Thread: any; a copier may be used by several threads at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/compiled_layout.h"
#include "orlop/error.h"
#include "orlop/kv_layout.h"

namespace orlop::gpu {

enum class EngineKind : std::uint8_t { kHost, kStaged, kDirect, kPieces };
inline constexpr std::size_t kEngineKindCount = 4;
std::string_view to_string(EngineKind kind);  // "host", "staged", ...
std::optional<EngineKind> engine_kind(std::string_view name);

enum class CopyDirection : std::uint8_t {
  kBackup,   // pages -> values
  kRestore,  // values -> pages
};

struct CopyRequest {
  CopyDirection direction = CopyDirection::kBackup;
  const CompiledLayout* layout = nullptr;
  // One address a value, each layout->value_len() bytes.
  std::span<std::byte* const> values{};
  // One list a pool: values.size() * pages_per_value numbers, those of value 0 first. Checked
  // against the parts' page counts (kInvalidArgument names pool, index and number); a restore's
  // pages must not repeat (the caller's duty: two values would race).
  std::span<const std::span<const std::int64_t>> pages{};
  // Restore: in this order, each one strip; disjoint, together any part of the layers (raw_sums
  // then covers that part). Each begins and ends at a multiple of 8 bytes of the value or at its
  // end: S has no parts of 8 bytes. Empty: everything in one.
  std::span<const LayerRange> ranges{};
  // cudaStream_t as a pointer, of the copier's device: the copy begins after the work submitted
  // there before. Null: at once (not the legacy default stream). The host engine has none.
  void* stream = nullptr;
};

// Longer waits would overflow the clock.
inline constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

class CopyJob {
 public:
  virtual ~CopyJob() = default;
  CopyJob() = default;
  CopyJob(const CopyJob&) = delete;
  CopyJob& operator=(const CopyJob&) = delete;

  virtual bool done() const = 0;  // one load; also true after a failure
  // False after `timeout`; one longer than kLongestWait counts as that.
  virtual bool wait(std::chrono::milliseconds timeout) = 0;
  // Idempotent; may come too late.
  virtual void cancel() = 0;
  virtual std::size_t ranges() const = 0;  // at least 1
  virtual bool range_done(std::size_t range) const = 0;
  // Makes what is submitted to `stream` afterwards wait for the range. kWrongState when cancelled
  // before the range was submitted. kInvalidArgument: there is no such range. The host engine waits
  // on the calling thread.
  virtual Result<void> stream_wait(std::size_t range, void* stream) = 0;

  // After done(). kClosed: cancelled before its end; kSystem: the CUDA call and its error. Bytes of
  // pages or values are then unspecified and no sum may be used.
  virtual Result<void> result() const = 0;
  virtual std::span<const std::uint64_t> raw_sums() const = 0;
};

// Called once, on a thread of the copier, when the job is done. Short; may submit, must not wait.
using OnCopyDone = std::function<void(CopyJob&)>;

class PageCopier {
 public:
  virtual ~PageCopier() = default;
  PageCopier() = default;
  PageCopier(const PageCopier&) = delete;
  PageCopier& operator=(const PageCopier&) = delete;

  virtual EngineKind kind() const = 0;
  // Copies what it needs of the request; the spans may go when it returns. Errors: kInvalidArgument
  // (names what is wrong with the request), kClosed (the copier is being destroyed: callbacks of
  // its last jobs may meet this), kLimit, kNoMemory, kSystem. `on_done` is then not called.
  virtual Result<std::shared_ptr<CopyJob>> submit(const CopyRequest& request,
                                                  OnCopyDone on_done = {}) = 0;
};

// One thread a direction, made with its first job (host_copier.h).
std::unique_ptr<PageCopier> make_host_copier();

}  // namespace orlop::gpu
