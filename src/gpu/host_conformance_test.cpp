// SPDX-License-Identifier: Apache-2.0
// The engine for CPU memory against the suite that every engine passes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "gpu/conformance/copier_conformance.h"
#include "gpu/host_copier.h"

namespace orlop::gpu::conformance {
namespace {

constexpr std::align_val_t kPage{4096};

class HostMemory final : public CacheMemory, public ValueMemory {
 public:
  explicit HostMemory(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::operator new(bytes, kPage)), bytes) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() override { ::operator delete(bytes_.data(), kPage); }

  std::span<std::byte> bytes() override { return bytes_; }
  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(bytes_.data()); }
  std::size_t size() const override { return bytes_.size(); }
  void upload(std::size_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(bytes_.subspan(offset, bytes.size()).data(), bytes.data(), bytes.size());
  }
  void download(std::size_t offset, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), bytes_.subspan(offset, bytes.size()).data(), bytes.size());
  }
  void write_in_stream(void* /*stream*/, std::size_t offset,
                       std::span<const std::byte> bytes) override {
    upload(offset, bytes);
  }
  void read_in_stream(void* /*stream*/, std::size_t offset, std::span<std::byte> bytes) override {
    download(offset, bytes);
  }

 private:
  std::span<std::byte> bytes_;
};

class HostUnderTest final : public EngineUnderTest {
 public:
  explicit HostUnderTest(const HostCopierOptions& options) : options_(options) {}
  EngineKind kind() const override { return EngineKind::kHost; }
  std::unique_ptr<PageCopier> make_copier() override { return make_host_copier(options_); }
  std::unique_ptr<CacheMemory> cache_memory(std::size_t bytes) override {
    return std::make_unique<HostMemory>(bytes);
  }
  std::unique_ptr<ValueMemory> value_memory(std::size_t bytes) override {
    return std::make_unique<HostMemory>(bytes);
  }
  void* make_stream() override { return nullptr; }

 private:
  const HostCopierOptions options_;
};

EngineFactory host(const char* name, const HostCopierOptions& options) {
  return {name, [options] { return std::make_unique<HostUnderTest>(options); }};
}

// Alone, and every restore by two threads, however small.
INSTANTIATE_TEST_SUITE_P(Engines, CopierConformance,
                         testing::Values(host("host", {.share = false}),
                                         host("host_shared", {.shared_from_bytes = 1})),
                         engine_name);

}  // namespace
}  // namespace orlop::gpu::conformance
