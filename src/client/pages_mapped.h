// SPDX-License-Identifier: Apache-2.0
// Test support: how many 4 KiB pages of a range are in this process's page table, by
// /proc/self/pagemap (bit 63: present). Instrumented builds count the same, unlike page faults.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "platform/file_descriptor.h"

namespace orlop::client::testing {

// range: whole pages.
inline std::uint64_t pages_mapped(std::span<const std::byte> range) {
  const FileDescriptor map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::vector<std::uint64_t> entries(range.size() / 4096);
  const auto bytes = static_cast<ssize_t>(entries.size() * 8);
  const auto page = reinterpret_cast<std::uintptr_t>(range.data()) / 4096;
  CHECK(::pread(map.get(), entries.data(), static_cast<std::size_t>(bytes),
                static_cast<off_t>(page * 8)) == bytes,
        "the kernel has /proc/self/pagemap");
  return static_cast<std::uint64_t>(
      std::ranges::count_if(entries, [](std::uint64_t entry) { return (entry >> 63) != 0; }));
}

}  // namespace orlop::client::testing
