// SPDX-License-Identifier: Apache-2.0
#include "platform/first_touch.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "platform/memory_file.h"
#include "platform/process.h"
#include "platform/system_error.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; include/uapi/asm-generic/mman-common.h
#endif

namespace orlop {
namespace {

struct Shared {
  std::byte* data = nullptr;
  std::uint64_t total = 0;
  std::uint64_t chunk = 0;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> populate{true};
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};  // errno of the first failure
};

void touch_pages(std::byte* begin, std::uint64_t bytes) {
  // Replacing a byte by itself is a write that changes nothing, also not what another process
  // stores there meanwhile. (Compilers turn an atomic "or 0" into a load.)
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(begin + at));
    unsigned char value = byte.load(std::memory_order_relaxed);
    byte.compare_exchange_strong(value, value, std::memory_order_relaxed);
  }
}

// 0, or the errno of a failure that touching would turn into a signal.
int make_present(Shared& shared, std::byte* begin, std::uint64_t bytes) {
  while (shared.populate.load(std::memory_order_relaxed)) {
    if (::madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    shared.populate.store(false, std::memory_order_relaxed);
  }
  touch_pages(begin, bytes);
  return 0;
}

// Takes chunks until none is left. after_chunk is empty on all threads but the caller's.
void touch_chunks(Shared& shared, const TouchProgress& after_chunk) {
  while (!shared.stop.load(std::memory_order_relaxed)) {
    const std::uint64_t begin = shared.next.fetch_add(shared.chunk, std::memory_order_relaxed);
    if (begin >= shared.total) return;
    const std::uint64_t bytes = std::min(shared.chunk, shared.total - begin);
    if (const int error_number = make_present(shared, shared.data + begin, bytes)) {
      int none = 0;
      shared.failed.compare_exchange_strong(none, error_number);
      shared.stop.store(true, std::memory_order_relaxed);
      return;
    }
    const std::uint64_t done = shared.done.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    // The last report is made once, after all threads have ended.
    if (after_chunk && done < shared.total && !after_chunk(done, shared.total)) {
      shared.stop.store(true, std::memory_order_relaxed);
    }
  }
}

Result<TouchReport> outcome(const Shared& shared, const TouchOptions& options, unsigned threads) {
  if (const int error_number = shared.failed.load(); error_number != 0) {
    const bool memory = error_number == ENOMEM || error_number == EFAULT;
    return system_failure("madvise(MADV_POPULATE_WRITE)", error_number,
                          memory ? "not enough free memory or huge pages: lower memory.capacity "
                                   "or free some (sysctl vm.nr_hugepages)"
                                 : "",
                          memory ? ErrorCode::kNoMemory : ErrorCode::kSystem);
  }
  const bool go_on =
      !shared.stop.load() && (!options.progress || options.progress(shared.total, shared.total));
  if (!go_on) return fail(ErrorCode::kClosed, "the first touch was stopped before its end");
  return TouchReport{shared.total, threads, shared.populate.load()};
}

}  // namespace

Result<TouchReport> first_touch(const Mapping& mapping, const TouchOptions& options) {
  if (options.chunk_bytes == 0 || options.chunk_bytes % kHugePageBytes != 0) {
    return fail(ErrorCode::kInvalidArgument, "first touch: chunks of " +
                                                 std::to_string(options.chunk_bytes) +
                                                 " bytes are not a positive multiple of 2 MiB");
  }
  // The kernel's answer to a read-only mapping (EINVAL) is that of a kernel without populate.
  if (mapping && !mapping.writable()) {
    return fail(ErrorCode::kInvalidArgument, "first touch: the mapping is read-only");
  }
  Shared shared;
  shared.data = mapping.data();
  shared.total = mapping.size();
  shared.chunk = options.chunk_bytes;
  shared.populate = options.populate;
  const std::uint64_t chunks = div_ceil(shared.total, shared.chunk);
  const unsigned wanted = options.threads == 0 ? cpu_count() : options.threads;
  const auto threads = static_cast<unsigned>(
      std::clamp<std::uint64_t>(std::min<std::uint64_t>(wanted, chunks), 1, kMaxTouchThreads));

  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads; ++i) {
      helpers.emplace_back([&shared] { touch_chunks(shared, {}); });
    }
    touch_chunks(shared, options.progress);
  }
  return outcome(shared, options, threads);
}

}  // namespace orlop
