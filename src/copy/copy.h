// SPDX-License-Identifier: Apache-2.0
// Copies between a process's buffers and value memory that compute the checksum in the same pass.
//
// The free functions at the end use the process's engine: the best kind the CPU has, or what the
// environment says (ORLOP_COPY, ORLOP_COPY_STREAM_BYTES). Tests and benchmarks make a CopyEngine
// of each kind. All kinds give identical results.
//
// Guarantees of every copy and check:
//  - any alignment, any length including 0; nothing outside [p, p + bytes) is touched;
//  - every byte of src is loaded once, so the bytes written are the bytes summed even if a hostile
//    process changes shared memory meanwhile;
//  - when it returns, all its stores are ordered before a later release store (non-temporal stores
//    end with sfence).
// Requires: dst and src do not overlap; both readable or writable for `bytes`.
// Thread: engines are immutable values; call from any thread.
//
//   slot_checksum = copy_in(slot, buffer, n, {key, digest}, {.batch_bytes = n * count});
//   if (!copy_out(buffer, slot, n, {key, digest}, slot_checksum, {.batch_bytes = n * count}))
//   miss();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "copy/checksum.h"
#include "copy/row_run.h"
#include "orlop/error.h"

namespace orlop {

struct CopyKernels;

enum class CopyKind : std::uint8_t { kScalar, kAvx2, kAvx512 };

// "scalar", "avx2", "avx512": the names ORLOP_COPY takes.
std::string_view to_string(CopyKind kind);

// What the caller knows about the whole batch this copy belongs to.
struct CopyHint {
  // Bytes all copies of the batch move together; 0 = just this value.
  std::uint64_t batch_bytes = 0;
};

// Batches of at least this many bytes are written around the cache (non-temporal stores), smaller
// ones through it, where the reader finds them. On another machine: ORLOP_COPY_STREAM_BYTES sets
// all.
//
// Out of value memory, into a buffer that its owner is about to use. Why a constant and not a share
// of the last-level cache: a virtual machine reports its host's whole cache (480 MiB for the 2 CPUs
// of our reference machine), of which it owns a changing sliver. There the two ways cross between
// 32 and 64 MiB of small pages. Table: docs/architecture/copy.md.
inline constexpr std::uint64_t kDefaultStreamOutBytes = 32 * 1024 * 1024;
// Into value memory: a slot was last touched a whole round of evictions ago, so ordinary stores
// would first fetch what they overwrite, and push out what the engine works on. A put of 4 MiB is
// faster by 1.4 to 1.9, one of 1 MiB by 1.3 to 2; at 512 KiB into slots that are still warm (put128
// of `bench local`) it loses 20 %.
inline constexpr std::uint64_t kDefaultStreamInBytes = 1024 * 1024;

class CopyEngine {
 public:
  // The fastest kind this CPU and operating system support.
  static CopyKind best_kind();
  static bool supported(CopyKind kind);
  // All of them, slowest first; never empty.
  static std::vector<CopyKind> supported_kinds();

  // kind: supported (CHECKed). stream_bytes: from where on copies stream, both ways; 0 = all of
  // them; none = the defaults.
  explicit CopyEngine(CopyKind kind = best_kind(), std::optional<std::uint64_t> stream_bytes = {});

  // An engine from the texts of ORLOP_COPY (scalar | avx2 | avx512) and ORLOP_COPY_STREAM_BYTES
  // (as parse_bytes: "8MiB"); nullopt or empty = default. Errors: kInvalidArgument for an unknown
  // name, a kind this CPU lacks, or not a size; the message names the variable and the remedy.
  static Result<CopyEngine> from_text(std::optional<std::string_view> kind,
                                      std::optional<std::string_view> stream_bytes);

  CopyKind kind() const { return kind_; }
  std::uint64_t stream_in_bytes() const { return stream_in_bytes_; }
  std::uint64_t stream_out_bytes() const { return stream_out_bytes_; }

  // Copies a value into value memory; returns its checksum.
  std::uint64_t copy_in(void* dst, const void* src, std::size_t bytes,
                        const ChecksumIdentity& identity, CopyHint hint = {}) const;

  // Copies a value out of value memory. True if the bytes now in dst have the expected checksum;
  // false: dst holds bytes that must not be used.
  [[nodiscard]] bool copy_out(void* dst, const void* src, std::size_t bytes,
                              const ChecksumIdentity& identity, std::uint64_t expected,
                              CopyHint hint = {}) const;

  // Checks a value in place. Says nothing about later reads of memory others can write.
  [[nodiscard]] bool verify(const void* src, std::size_t bytes, const ChecksumIdentity& identity,
                            std::uint64_t expected) const;

  // Copies rows of a value; returns their share of S. around_cache: with non-temporal stores where
  // they pay; then end_rows() is due before the bytes are published.
  std::uint64_t move_rows(const RowRun& rows, bool around_cache) const;
  void end_rows() const;

  // As the functions of the same name in checksum.h.
  std::uint64_t raw_sum(std::span<const std::byte> part, std::uint64_t first_word = 0) const;
  std::uint64_t checksum(std::span<const std::byte> value, const ChecksumIdentity& identity) const;

 private:
  std::uint64_t copied(void* dst, const void* src, std::size_t bytes,
                       const ChecksumIdentity& identity, bool around_cache) const;

  CopyKind kind_;
  std::uint64_t stream_in_bytes_, stream_out_bytes_;
  const CopyKernels* kernels_;
};

// The engine the environment asks for, read once per process. Start-up code (attach, serve) reports
// its error and refuses to go on.
const Result<CopyEngine>& environment_copy_engine();

// The same engine; the best kind if the environment is wrong (results are identical anyway).
const CopyEngine& process_copy_engine();

std::uint64_t copy_in(void* dst, const void* src, std::size_t bytes,
                      const ChecksumIdentity& identity, CopyHint hint = {});
[[nodiscard]] bool copy_out(void* dst, const void* src, std::size_t bytes,
                            const ChecksumIdentity& identity, std::uint64_t expected,
                            CopyHint hint = {});
[[nodiscard]] bool verify(const void* src, std::size_t bytes, const ChecksumIdentity& identity,
                          std::uint64_t expected);

}  // namespace orlop
