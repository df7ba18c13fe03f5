// SPDX-License-Identifier: Apache-2.0
// Which parts of the value area this process has in its page tables.
//
// The node has made the memory resident, but every process that maps it takes a fault for each
// 4 KiB that it writes first: 2.8 us a page on a virtual machine, as much again as a put of 4 MiB
// costs otherwise, and in a cache of 64 GiB they go on for hours. One madvise for a put's slots
// costs a third (0.9 us a page), once. Reads need none: the kernel maps 16 pages a fault for them.
//
// Guarantees: changes no byte. A kernel without MADV_POPULATE_WRITE (before 5.14), or one that
// refuses, leaves the faults where they are. Costs less than the faults it replaces; holds no lock
// of ours, and the kernel's lock of the address space for kStepBytes at a time (about 1 ms). Huge
// pages of either kind are one entry: asking for the next chunk of one costs a system call.
// Forked child: has no such mapping and must not call.
// Thread: any; two that ask for the same part both do the work.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace orlop::client {

class ValuePages {
 public:
  // Unit of remembering; a power of two. A smaller slot brings its neighbours in: slots of a batch
  // lie side by side. One bit each: 128 KiB for 64 GiB.
  static constexpr std::uint64_t kChunkBytes = 64 * 1024;
  // At most so much in one system call: a thread of the process that maps or unmaps memory waits
  // for the call that runs.
  static constexpr std::uint64_t kStepBytes = 4 * 1024 * 1024;

  // area: the whole mapping, begins at a page; outlives this object.
  explicit ValuePages(std::span<std::byte> area);

  // About to be written: a part of the area, or empty.
  void will_write(std::span<const std::byte> part);

  // Chunks asked of the kernel so far, for tests.
  std::uint64_t populated() const { return populated_.load(std::memory_order_relaxed); }

 private:
  bool known(std::uint64_t chunk) const;
  void populate(std::uint64_t first, std::uint64_t end);

  std::span<std::byte> area_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> known_;
  std::atomic<std::uint64_t> populated_{0};
  std::atomic<bool> refused_{false};
};

}  // namespace orlop::client
