// SPDX-License-Identifier: Apache-2.0
#include "client/value_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; glibc names it since 2.34
#endif

namespace orlop::client {

namespace {

std::uint64_t chunks_of(std::uint64_t bytes) {
  return (bytes + ValuePages::kChunkBytes - 1) / ValuePages::kChunkBytes;
}

}  // namespace

ValuePages::ValuePages(std::span<std::byte> area)
    : area_(area),
      known_(std::make_unique<std::atomic<std::uint64_t>[]>((chunks_of(area.size()) + 63) / 64)) {}

bool ValuePages::known(std::uint64_t chunk) const {
  return (known_[chunk / 64].load(std::memory_order_relaxed) >> (chunk % 64) & 1) != 0;
}

void ValuePages::will_write(std::span<const std::byte> part) {
  if (part.empty() || refused_.load(std::memory_order_relaxed)) return;
  const auto offset = static_cast<std::uint64_t>(part.data() - area_.data());
  CHECK(offset < area_.size() && part.size() <= area_.size() - offset, "a part of the value area");
  const std::uint64_t end = chunks_of(offset + part.size());
  for (std::uint64_t chunk = offset / kChunkBytes; chunk < end;) {
    if (known(chunk)) {
      ++chunk;
      continue;
    }
    const std::uint64_t first = chunk;
    const std::uint64_t step = std::min(end, first + kStepBytes / kChunkBytes);
    while (chunk < step && !known(chunk)) ++chunk;
    populate(first, chunk);
  }
}

void ValuePages::populate(std::uint64_t first, std::uint64_t end) {
  const std::uint64_t from = first * kChunkBytes;
  const std::uint64_t bytes = std::min<std::uint64_t>(end * kChunkBytes, area_.size()) - from;
  if (::madvise(area_.data() + from, bytes, MADV_POPULATE_WRITE) != 0 && errno == EINVAL) {
    refused_.store(true, std::memory_order_relaxed);
    return;
  }
  // Another error (no memory in this cgroup) is the copy's to meet; asking again would not help it.
  for (std::uint64_t chunk = first; chunk < end; ++chunk) {
    known_[chunk / 64].fetch_or(std::uint64_t{1} << (chunk % 64), std::memory_order_relaxed);
  }
  populated_.fetch_add(end - first, std::memory_order_relaxed);
}

}  // namespace orlop::client
