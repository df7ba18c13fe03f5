// SPDX-License-Identifier: Apache-2.0
// What the conformance suite needs of an engine. A test program of an engine says
//
//   INSTANTIATE_TEST_SUITE_P(Staged, CopierConformance,
//                            testing::Values(EngineFactory{"staged", make_staged_under_test}),
//                            engine_name);
//
// and links orlop_gpu_conformance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/page_copier.h"

namespace orlop::gpu::conformance {

// Memory where the engine's pages are: a GPU's, or the CPU's. Aligned to 256 bytes.
class CacheMemory {
 public:
  virtual ~CacheMemory() = default;
  virtual std::uint64_t address() const = 0;  // for KvPart::base
  virtual std::size_t size() const = 0;
  // Whole calls: return when the bytes are there.
  virtual void upload(std::size_t offset, std::span<const std::byte> bytes) = 0;
  virtual void download(std::size_t offset, std::span<std::byte> bytes) = 0;
  // In the order of `stream` (EngineUnderTest::make_stream). On a GPU a kernel that takes a while
  // should run before the write, so that a copy that does not wait is seen.
  virtual void write_in_stream(void* stream, std::size_t offset,
                               std::span<const std::byte> bytes) = 0;
  // What lies there in the order of the stream; returns when it was read.
  virtual void read_in_stream(void* stream, std::size_t offset, std::span<std::byte> bytes) = 0;
};

// Memory where values are: CPU memory, for CUDA engines registered. Aligned to 4,096 bytes.
class ValueMemory {
 public:
  virtual ~ValueMemory() = default;
  virtual std::span<std::byte> bytes() = 0;
};

class EngineUnderTest {
 public:
  virtual ~EngineUnderTest() = default;
  virtual EngineKind kind() const = 0;
  virtual std::unique_ptr<PageCopier> make_copier() = 0;
  virtual std::unique_ptr<CacheMemory> cache_memory(std::size_t bytes) = 0;
  virtual std::unique_ptr<ValueMemory> value_memory(std::size_t bytes) = 0;
  // Null where the engine has none. Lives as long as this object.
  virtual void* make_stream() = 0;
};

struct EngineFactory {
  std::string name;
  std::function<std::unique_ptr<EngineUnderTest>()> make;
};

}  // namespace orlop::gpu::conformance
