// SPDX-License-Identifier: Apache-2.0
#include "copy/copy_bench.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "copy/bench_memory.h"

namespace orlop {
namespace {

// One direction over one set.
struct Course {
  std::byte* dst;
  const std::byte* src;
  std::size_t value_bytes;
  std::size_t set_bytes;   // a multiple of value_bytes
  std::size_t turn_bytes;  // copied in one turn
};

// Runs `copy(dst, src)` value by value for one turn; GB (10^9 bytes) per second.
template <class Copy>
double turn(const Course& course, Copy copy) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t offset = 0;
  std::size_t done = 0;
  for (; done < course.turn_bytes; done += course.value_bytes) {
    copy(course.dst + offset, course.src + offset);
    offset += course.value_bytes;
    if (offset == course.set_bytes) offset = 0;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return static_cast<double>(done) / took.count() / 1e9;
}

double memcpy_turn(const Course& course) {
  return turn(course, [&](std::byte* dst, const std::byte* src) {
    std::memcpy(dst, src, course.value_bytes);
    asm volatile("" : : "r"(dst) : "memory");  // the copy has to happen
  });
}

double engine_turn(const Course& course, const CopyEngine& engine) {
  const ChecksumIdentity identity{.key = {1, 2}, .namespace_digest = 3};
  return turn(course, [&](std::byte* dst, const std::byte* src) {
    const std::uint64_t sum =
        engine.copy_in(dst, src, course.value_bytes, identity, {.batch_bytes = course.set_bytes});
    asm volatile("" : : "r"(sum) : "memory");
  });
}

std::string row_name(const CopyBenchRow& row, std::size_t value_bytes, std::size_t set_bytes) {
  std::string name = "copy ";
  name += to_string(row.kind);
  name += row.get ? " get " : " put ";
  name += format_bytes(value_bytes);
  name += row.cached ? " in cache" : " over " + format_bytes(set_bytes);
  return name;
}

// memcpy and every engine take turns; the best of each counts.
void measure(const Course& course, const std::vector<CopyEngine>& engines, int rounds, bool get,
             bool cached, std::vector<CopyBenchRow>& rows) {
  double memcpy_best = 0;
  std::vector<double> best(engines.size(), 0);
  for (int round = 0; round < rounds; ++round) {
    memcpy_best = std::max(memcpy_best, memcpy_turn(course));
    for (std::size_t i = 0; i < engines.size(); ++i) {
      best[i] = std::max(best[i], engine_turn(course, engines[i]));
    }
  }
  for (std::size_t i = 0; i < engines.size(); ++i) {
    CopyBenchRow row;
    row.kind = engines[i].kind();
    row.get = get;
    row.cached = cached;
    row.name = row_name(row, course.value_bytes, course.set_bytes);
    row.memcpy_gb_s = memcpy_best;
    row.copy_gb_s = best[i];
    row.ratio = best[i] / memcpy_best;
    row.bar = copy_bench_bar(row.kind, cached);
    rows.push_back(std::move(row));
  }
}

std::size_t whole_values(std::size_t bytes, std::size_t value_bytes) {
  return bytes / value_bytes * value_bytes;
}

Result<void> check(const CopyBenchOptions& options) {
  if (options.value_bytes == 0 || options.cached_set_bytes < options.value_bytes ||
      options.working_set_bytes < options.value_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "copy bench: value_bytes must be at least 1 and no larger than the two sets");
  }
  if (options.cached_rounds < 1 || options.memory_rounds < 1 || options.cached_turn_bytes < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "copy bench: rounds and cached_turn_bytes must be at least 1");
  }
  for (CopyKind kind : options.kinds) {
    if (!CopyEngine::supported(kind)) {
      return fail(ErrorCode::kInvalidArgument,
                  "copy bench: this machine has no " + std::string(to_string(kind)));
    }
  }
  return {};
}

}  // namespace

double copy_bench_bar(CopyKind kind, bool cached) {
  switch (kind) {
    case CopyKind::kScalar:
      return 0;
    case CopyKind::kAvx2:
      return cached ? 0.7 : 1.05;
    case CopyKind::kAvx512:
      return cached ? 0.8 : 1.2;
  }
  return 0;
}

Result<std::vector<CopyBenchRow>> run_copy_bench(const CopyBenchOptions& options) {
  if (const Result<void> valid = check(options); !valid) return std::unexpected(valid.error());
  const std::size_t value_bytes = options.value_bytes;
  const std::size_t cached_bytes = whole_values(options.cached_set_bytes, value_bytes);
  const std::size_t memory_bytes = whole_values(options.working_set_bytes, value_bytes);
  const std::size_t mapped_bytes = std::max(cached_bytes, memory_bytes);
  const Result<BenchMemory> private_side = BenchMemory::create(mapped_bytes, false);
  if (!private_side) return std::unexpected(private_side.error());
  const Result<BenchMemory> shared_side = BenchMemory::create(mapped_bytes, true);
  if (!shared_side) return std::unexpected(shared_side.error());

  std::vector<CopyEngine> engines;
  for (CopyKind kind : options.kinds.empty() ? CopyEngine::supported_kinds() : options.kinds) {
    engines.emplace_back(kind, options.stream_bytes);
  }
  std::vector<CopyBenchRow> rows;
  for (const bool get : {false, true}) {
    std::byte* const dst = get ? private_side->data() : shared_side->data();
    const std::byte* const src = get ? shared_side->data() : private_side->data();
    measure({dst, src, value_bytes, cached_bytes, options.cached_turn_bytes}, engines,
            options.cached_rounds, get, true, rows);
    measure({dst, src, value_bytes, memory_bytes, memory_bytes}, engines, options.memory_rounds,
            get, false, rows);
  }
  return rows;
}

}  // namespace orlop
