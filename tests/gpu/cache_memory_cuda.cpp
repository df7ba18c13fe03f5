// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "cache_memory.h"

namespace orlop::gpu_test {
namespace {

Result<void> check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return {};
  return fail(ErrorCode::kSystem, std::string(call) + ": " + cudaGetErrorString(status));
}

class DeviceMemory final : public CacheMemory {
 public:
  ~DeviceMemory() override {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    (void)cudaFree(ballast_);
    (void)cudaFree(memory_);
  }

  Result<void> allocate(std::uint64_t bytes) {
    bytes_ = bytes;
    return check(cudaMalloc(&memory_, bytes), "cudaMalloc");
  }
  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(memory_); }
  Result<void> write(std::span<const std::byte> from) override {
    CHECK(from.size() <= bytes_);
    return check(cudaMemcpy(memory_, from.data(), from.size(), cudaMemcpyHostToDevice),
                 "cudaMemcpy to the device");
  }
  Result<void> read(std::span<std::byte> into) override {
    CHECK(into.size() <= bytes_);
    // Pageable memory is copied in the legacy stream, which does not wait for others'.
    if (Result<void> idle = check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); !idle)
      return idle;
    return check(cudaMemcpy(into.data(), memory_, into.size(), cudaMemcpyDeviceToHost),
                 "cudaMemcpy from the device");
  }

  // Copies inside the device, as many as one of them, timed, says.
  Result<void*> busy_stream(double seconds) override {
    constexpr std::size_t kBallast = std::size_t{8} << 30;
    if (auto made = check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                          "cudaStreamCreateWithFlags");
        !made)
      return std::unexpected(made.error());
    if (auto made = check(cudaMalloc(&ballast_, kBallast), "cudaMalloc of 8 GiB"); !made)
      return std::unexpected(made.error());
    cudaEvent_t begin = nullptr, end = nullptr;
    float milliseconds = 0;
    cudaError_t status = cudaEventCreate(&begin);
    if (status == cudaSuccess) status = cudaEventCreate(&end);
    if (status == cudaSuccess) status = copy_ballast(kBallast);  // the first is slower
    if (status == cudaSuccess) status = cudaEventRecord(begin, stream_);
    if (status == cudaSuccess) status = copy_ballast(kBallast);
    if (status == cudaSuccess) status = cudaEventRecord(end, stream_);
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream_);
    if (status == cudaSuccess) status = cudaEventElapsedTime(&milliseconds, begin, end);
    const double wanted = seconds * 1000 / std::max(milliseconds, 0.01f);
    // Fewer than a stream takes without blocking its submitter (1,024).
    const int copies = std::clamp(static_cast<int>(wanted), 1, 900);
    for (int i = 0; i < copies && status == cudaSuccess; ++i) status = copy_ballast(kBallast);
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    if (auto done = check(status, "copies inside the device"); !done)
      return std::unexpected(done.error());
    return static_cast<void*>(stream_);
  }

 private:
  cudaError_t copy_ballast(std::size_t bytes) {
    auto* const half = static_cast<std::byte*>(ballast_) + bytes / 2;
    return cudaMemcpyAsync(ballast_, half, bytes / 2, cudaMemcpyDeviceToDevice, stream_);
  }

  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  void* ballast_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<CacheMemory>> make_device_memory(std::uint64_t bytes) {
  auto memory = std::make_unique<DeviceMemory>();
  if (auto made = memory->allocate(bytes); !made) return std::unexpected(made.error());
  return memory;
}

}  // namespace orlop::gpu_test
