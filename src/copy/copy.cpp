// SPDX-License-Identifier: Apache-2.0
#include "copy/copy.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "base/units.h"
#include "copy/kernels.h"

namespace orlop {
namespace {

constexpr CopyKind kKinds[] = {CopyKind::kScalar, CopyKind::kAvx2, CopyKind::kAvx512};

const CopyKernels& kernels_of(CopyKind kind) {
#if defined(__x86_64__)
  if (kind == CopyKind::kAvx2) return kAvx2Kernels;
  if (kind == CopyKind::kAvx512) return kAvx512Kernels;
#endif
  CHECK(kind == CopyKind::kScalar, "copy kind of another processor");
  return kScalarKernels;
}

std::string supported_names() {
  std::string names;
  for (CopyKind kind : CopyEngine::supported_kinds()) {
    if (!names.empty()) names += ", ";
    names += to_string(kind);
  }
  return names;
}

Result<CopyKind> parse_kind(std::string_view text) {
  for (CopyKind kind : kKinds) {
    if (text == to_string(kind) && CopyEngine::supported(kind)) return kind;
  }
  return fail(ErrorCode::kInvalidArgument, "ORLOP_COPY=" + std::string(text) +
                                               ": this machine has " + supported_names() +
                                               "; leave it unset for the best");
}

Result<std::uint64_t> parse_stream_bytes(std::string_view text) {
  Result<std::uint64_t> bytes = parse_bytes(text);
  if (!bytes) return fail(bytes.error().code, "ORLOP_COPY_STREAM_BYTES: " + bytes.error().message);
  return bytes;
}

std::optional<std::string_view> environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return text;
}

}  // namespace

std::string_view to_string(CopyKind kind) {
  switch (kind) {
    case CopyKind::kScalar:
      return "scalar";
    case CopyKind::kAvx2:
      return "avx2";
    case CopyKind::kAvx512:
      return "avx512";
  }
  return "unknown";
}

bool CopyEngine::supported(CopyKind kind) {
  switch (kind) {
    case CopyKind::kScalar:
      return true;
#if defined(__x86_64__)
    // These ask CPUID and also whether the operating system saves the registers.
    case CopyKind::kAvx2:
      return __builtin_cpu_supports("avx2") != 0;
    case CopyKind::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0;
#else
    default:
      return false;
#endif
  }
  return false;
}

std::vector<CopyKind> CopyEngine::supported_kinds() {
  std::vector<CopyKind> kinds;
  std::ranges::copy_if(kKinds, std::back_inserter(kinds), supported);
  return kinds;
}

CopyKind CopyEngine::best_kind() {
  return supported_kinds().back();
}

CopyEngine::CopyEngine(CopyKind kind, std::optional<std::uint64_t> stream_bytes)
    : kind_(kind),
      stream_in_bytes_(stream_bytes.value_or(kDefaultStreamInBytes)),
      stream_out_bytes_(stream_bytes.value_or(kDefaultStreamOutBytes)),
      kernels_(&kernels_of(kind)) {
  CHECK(supported(kind), "copy kind this processor lacks");
}

Result<CopyEngine> CopyEngine::from_text(std::optional<std::string_view> kind,
                                         std::optional<std::string_view> stream_bytes) {
  CopyKind chosen = best_kind();
  std::optional<std::uint64_t> threshold;
  if (kind && !kind->empty()) {
    const Result<CopyKind> parsed = parse_kind(*kind);
    if (!parsed) return std::unexpected(parsed.error());
    chosen = *parsed;
  }
  if (stream_bytes && !stream_bytes->empty()) {
    const Result<std::uint64_t> parsed = parse_stream_bytes(*stream_bytes);
    if (!parsed) return std::unexpected(parsed.error());
    threshold = *parsed;
  }
  return CopyEngine(chosen, threshold);
}

std::uint64_t CopyEngine::copy_in(void* dst, const void* src, std::size_t bytes,
                                  const ChecksumIdentity& identity, CopyHint hint) const {
  const bool around_cache = std::max<std::uint64_t>(hint.batch_bytes, bytes) >= stream_in_bytes_;
  return copied(dst, src, bytes, identity, around_cache);
}

bool CopyEngine::copy_out(void* dst, const void* src, std::size_t bytes,
                          const ChecksumIdentity& identity, std::uint64_t expected,
                          CopyHint hint) const {
  const bool around_cache = std::max<std::uint64_t>(hint.batch_bytes, bytes) >= stream_out_bytes_;
  return copied(dst, src, bytes, identity, around_cache) == expected;
}

std::uint64_t CopyEngine::copied(void* dst, const void* src, std::size_t bytes,
                                 const ChecksumIdentity& identity, bool around_cache) const {
  const auto loop = around_cache ? kernels_->stream : kernels_->copy;
  const std::uint64_t sum =
      loop(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), bytes);
  return finalise(sum, bytes, identity);
}

bool CopyEngine::verify(const void* src, std::size_t bytes, const ChecksumIdentity& identity,
                        std::uint64_t expected) const {
  return checksum({static_cast<const std::byte*>(src), bytes}, identity) == expected;
}

std::uint64_t CopyEngine::move_rows(const RowRun& rows, bool around_cache) const {
  CHECK(rows.first_word % 2 == 0 && rows.word_step % 2 == 0 &&
            (rows.count <= 1 || rows.row_bytes % 8 == 0),
        "rows of a value begin at multiples of 8 bytes");
  return around_cache ? kernels_->stream_rows(rows) : kernels_->rows(rows);
}

void CopyEngine::end_rows() const {
  kernels_->fence();
}

std::uint64_t CopyEngine::raw_sum(std::span<const std::byte> part, std::uint64_t first_word) const {
  CHECK(first_word % 2 == 0, "a part of a value begins at a multiple of 8 bytes");
  return kernels_->sum(part.data(), part.size(), first_word);
}

std::uint64_t CopyEngine::checksum(std::span<const std::byte> value,
                                   const ChecksumIdentity& identity) const {
  return finalise(raw_sum(value), value.size(), identity);
}

const Result<CopyEngine>& environment_copy_engine() {
  static const Result<CopyEngine> engine =
      CopyEngine::from_text(environment("ORLOP_COPY"), environment("ORLOP_COPY_STREAM_BYTES"));
  return engine;
}

const CopyEngine& process_copy_engine() {
  static const CopyEngine engine = environment_copy_engine().value_or(CopyEngine());
  return engine;
}

std::uint64_t raw_sum(std::span<const std::byte> part, std::uint64_t first_word) {
  return process_copy_engine().raw_sum(part, first_word);
}

std::uint64_t checksum(std::span<const std::byte> value, const ChecksumIdentity& identity) {
  return process_copy_engine().checksum(value, identity);
}

std::uint64_t copy_in(void* dst, const void* src, std::size_t bytes,
                      const ChecksumIdentity& identity, CopyHint hint) {
  return process_copy_engine().copy_in(dst, src, bytes, identity, hint);
}

bool copy_out(void* dst, const void* src, std::size_t bytes, const ChecksumIdentity& identity,
              std::uint64_t expected, CopyHint hint) {
  return process_copy_engine().copy_out(dst, src, bytes, identity, expected, hint);
}

bool verify(const void* src, std::size_t bytes, const ChecksumIdentity& identity,
            std::uint64_t expected) {
  return process_copy_engine().verify(src, bytes, identity, expected);
}

}  // namespace orlop
