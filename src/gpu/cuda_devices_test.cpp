// SPDX-License-Identifier: Apache-2.0
// Two devices in one process: copies go to the one that holds the layout's memory, and a thread's
// own device stays what it was, also "none". Each test wants a process of its own (ctest gives it).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "gpu/cuda_copier.h"
#include "gpu/cuda_device.h"
#include "gpu/device_scope.h"
#include "gpu/host_registration.h"

namespace orlop::gpu {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 20;
constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(60);

void must(cudaError_t error) {
  CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

int device_count() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  return devices;
}

// On a thread that ends: whatever device it chose, nobody else's thread has chosen.
void elsewhere(const std::function<void()>& body) {
  std::thread(body).join();
}

// One page of a cache in memory of a device, and a value of the same size.
class Bed {
 public:
  explicit Bed(int device) : device_(device) {
    elsewhere([this] {
      must(cudaSetDevice(device_));
      void* memory = nullptr;
      must(cudaMalloc(&memory, kBytes));
      page_ = static_cast<std::byte*>(memory);
    });
    void* const at =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED, "mmap");
    value_ = static_cast<std::byte*>(at);
    KvLayout layout;
    layout.parts.push_back({.base = reinterpret_cast<std::uint64_t>(page_),
                            .pages = 1,
                            .page_stride = kBytes,
                            .row_bytes = kBytes});
    layout_ = *CompiledLayout::compile(layout, kBytes);
  }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;
  ~Bed() {
    elsewhere([this] {
      must(cudaSetDevice(device_));
      must(cudaFree(page_));
    });
    munmap(value_, kBytes);
  }

  const CompiledLayout& layout() const { return *layout_; }
  std::span<std::byte> value() const { return {value_, kBytes}; }
  void fill_page(unsigned char with) const {
    elsewhere([&] {
      must(cudaSetDevice(device_));
      must(cudaMemset(page_, with, kBytes));
      must(cudaDeviceSynchronize());
    });
  }
  Result<std::shared_ptr<CopyJob>> submit(PageCopier& copier, void* stream = nullptr) const {
    const std::int64_t number[] = {0};
    const std::span<const std::int64_t> pages[] = {number};
    return copier.submit({.direction = CopyDirection::kBackup,
                          .layout = &*layout_,
                          .values = {&value_, 1},
                          .pages = pages,
                          .stream = stream});
  }
  std::shared_ptr<CopyJob> back_up(PageCopier& copier) const {
    auto job = submit(copier);
    CHECK(job.has_value(), job.error().message.c_str());
    return *job;
  }
  bool value_is(unsigned char wanted) const {
    return std::ranges::all_of(value(), [&](std::byte b) { return b == std::byte{wanted}; });
  }

 private:
  const int device_;
  std::byte* page_ = nullptr;
  std::byte* value_ = nullptr;
  std::optional<CompiledLayout> layout_;
};

std::unique_ptr<CudaCopier> copier_on(int device, std::optional<EngineKind> engine) {
  auto copier = make_cuda_copier({.device = device, .engine = engine, .staging_bytes = 16 << 20});
  CHECK(copier.has_value(), copier.error().message.c_str());
  return std::move(*copier);
}

class CudaDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count() < 2) GTEST_SKIP() << "there are no two devices";
    if (driver_contexts().is_made(0)) GTEST_SKIP() << "run this test in a process of its own";
  }
};

TEST_F(CudaDevices, Work_on_the_second_leaves_the_first_and_the_thread_untouched) {
  Contexts& contexts = driver_contexts();
  const Bed bed(1);
  bed.fill_page(7);
  ASSERT_EQ(contexts.current(), Context{});
  EXPECT_EQ(device_of(bed.layout()).value(), 1);
  {
    auto registration = HostRegistration::register_memory(bed.value(), 1);
    ASSERT_TRUE(registration.has_value()) << registration.error().message;
    std::shared_ptr<CopyJob> job;  // outlives its copier
    for (const EngineKind engine :
         {EngineKind::kStaged, EngineKind::kDirect, EngineKind::kPieces}) {
      std::ranges::fill(bed.value(), std::byte{0});
      const auto copier = copier_on(1, engine);
      job = bed.back_up(*copier);
      ASSERT_TRUE(job->wait(kPatience));
      ASSERT_TRUE(job->result().has_value()) << job->result().error().message;
      EXPECT_TRUE(bed.value_is(7)) << to_string(engine);
      EXPECT_EQ(contexts.current(), Context{});
    }
  }
  EXPECT_EQ(contexts.current(), Context{});
  EXPECT_FALSE(contexts.is_made(0)) << "a context on a device that this process does not use";
  int device = -1;
  must(cudaGetDevice(&device));
  EXPECT_EQ(device, 0) << "the thread's own";
}

TEST_F(CudaDevices, A_thread_on_the_first_uses_copiers_of_both_and_stays_there) {
  const Bed first(0), second(1);
  must(cudaSetDevice(0));
  first.fill_page(3);
  second.fill_page(4);
  EXPECT_EQ(device_of(first.layout()).value(), 0);
  EXPECT_EQ(device_of(second.layout()).value(), 1);
  const auto one = HostRegistration::register_memory(first.value(), 0);
  const auto other = HostRegistration::register_memory(second.value(), 1);
  ASSERT_TRUE(one.has_value() && other.has_value());
  {
    const auto on_first = copier_on(0, EngineKind::kStaged);
    const auto on_second = copier_on(1, EngineKind::kStaged);
    const auto a = first.back_up(*on_first), b = second.back_up(*on_second);
    void* stream = nullptr;
    must(
        cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(&stream), cudaStreamNonBlocking));
    EXPECT_TRUE(b->stream_wait(0, stream).has_value()) << "a stream of the other device";
    must(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
    must(cudaStreamDestroy(static_cast<cudaStream_t>(stream)));
    for (const auto& job : {a, b}) {
      ASSERT_TRUE(job->wait(kPatience));
      EXPECT_TRUE(job->result().has_value()) << job->result().error().message;
    }
  }
  EXPECT_TRUE(first.value_is(3));
  EXPECT_TRUE(second.value_is(4));
  int device = -1;
  must(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(CudaDevices, A_stream_of_the_other_device_is_refused_by_name) {
  const Bed bed(1);
  bed.fill_page(5);
  const auto registration = HostRegistration::register_memory(bed.value(), 1);
  ASSERT_TRUE(registration.has_value());
  const auto copier = copier_on(1, EngineKind::kStaged);
  must(cudaSetDevice(0));
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto refused = bed.submit(*copier, stream);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("one of device 1"), std::string::npos)
      << refused.error().message;
  const auto job = bed.back_up(*copier);  // nothing of the refusal is left
  ASSERT_TRUE(job->wait(kPatience));
  EXPECT_TRUE(job->result().has_value());
  EXPECT_TRUE(bed.value_is(5));
  must(cudaStreamDestroy(stream));
}

// A registration is good for both, whoever asked first.
TEST_F(CudaDevices, Memory_registered_for_one_is_copied_by_the_other) {
  const Bed bed(1);
  bed.fill_page(9);
  const auto registration = HostRegistration::register_memory(bed.value(), 0);
  ASSERT_TRUE(registration.has_value());
  const auto again = HostRegistration::register_memory(bed.value(), 1);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, *registration);
  const auto copier = copier_on(1, {});
  const auto job = bed.back_up(*copier);
  ASSERT_TRUE(job->wait(kPatience));
  EXPECT_TRUE(job->result().has_value()) << job->result().error().message;
  EXPECT_TRUE(bed.value_is(9));
}

}  // namespace
}  // namespace orlop::gpu
