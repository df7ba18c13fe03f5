// SPDX-License-Identifier: Apache-2.0
// The memory of an engine's cache, on a device or in this process, for tests of the copy path.
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "orlop/error.h"

namespace orlop::gpu_test {

enum class MemoryKind { kHost, kDevice };

class CacheMemory {
 public:
  virtual ~CacheMemory() = default;
  CacheMemory() = default;
  CacheMemory(const CacheMemory&) = delete;
  CacheMemory& operator=(const CacheMemory&) = delete;

  virtual std::uint64_t address() const = 0;
  // From the first byte on; done when it returns.
  virtual Result<void> write(std::span<const std::byte> from) = 0;
  virtual Result<void> read(std::span<std::byte> into) = 0;
  // A stream on which the device has work for about so long, without a thread of this process: work
  // submitted behind it begins late, also when this process has died. Null in host memory.
  virtual Result<void*> busy_stream(double seconds) = 0;
};

// Errors: kInvalidArgument (a device is asked for and CUDA is not built in), kSystem (CUDA's
// words).
Result<std::unique_ptr<CacheMemory>> make_cache_memory(MemoryKind kind, std::uint64_t bytes);
// The part of it that is chosen when building: cache_memory_cuda.cpp or cache_memory_no_cuda.cpp.
Result<std::unique_ptr<CacheMemory>> make_device_memory(std::uint64_t bytes);

}  // namespace orlop::gpu_test
