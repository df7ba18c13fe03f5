// SPDX-License-Identifier: Apache-2.0
#include "cache_memory.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace orlop::gpu_test {
namespace {

class HostMemory final : public CacheMemory {
 public:
  explicit HostMemory(std::uint64_t bytes) : bytes_(bytes) {}

  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(bytes_.data()); }
  Result<void> write(std::span<const std::byte> from) override {
    CHECK(from.size() <= bytes_.size());
    std::memcpy(bytes_.data(), from.data(), from.size());
    return {};
  }
  Result<void> read(std::span<std::byte> into) override {
    CHECK(into.size() <= bytes_.size());
    std::memcpy(into.data(), bytes_.data(), into.size());
    return {};
  }
  Result<void*> busy_stream(double) override { return nullptr; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<CacheMemory>> make_cache_memory(MemoryKind kind, std::uint64_t bytes) {
  if (kind == MemoryKind::kDevice) return make_device_memory(bytes);
  return std::make_unique<HostMemory>(bytes);
}

}  // namespace orlop::gpu_test
