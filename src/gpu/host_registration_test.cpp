// SPDX-License-Identifier: Apache-2.0
// What of registration can be seen without a device; with one, the conformance suite registers.
#include "gpu/host_registration.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

namespace orlop::gpu {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class Pages {
 public:
  explicit Pages(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
               bytes) {}
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(bytes_.data(), bytes_.size()); }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

bool has_device() {
  int devices = 0;
  const bool has = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  (void)cudaGetLastError();
  return has;
}

const void* at(std::uint64_t address) {
  return reinterpret_cast<const void*>(address);
}

TEST(RegisteredChunks, A_run_ends_at_the_border_of_its_chunk) {
  const RegisteredChunks chunks({{1000, 2000}, {2000, 2500}, {4000, 5000}});
  EXPECT_EQ(chunks.run_at(at(999)), 0u);
  EXPECT_EQ(chunks.run_at(at(1000)), 1000u);
  EXPECT_EQ(chunks.run_at(at(1999)), 1u);
  EXPECT_EQ(chunks.run_at(at(2000)), 500u);
  EXPECT_EQ(chunks.run_at(at(2500)), 0u);
  EXPECT_EQ(chunks.run_at(at(3999)), 0u);
  EXPECT_EQ(chunks.run_at(at(4999)), 1u);
  EXPECT_EQ(chunks.run_at(at(5000)), 0u);
}

TEST(RegisteredChunks, Covers_what_lies_in_neighbouring_chunks_and_no_gap) {
  const RegisteredChunks chunks({{1000, 2000}, {2000, 2500}, {4000, 5000}});
  EXPECT_TRUE(chunks.covers(at(1000), 1500));
  EXPECT_FALSE(chunks.covers(at(1000), 1501));
  EXPECT_FALSE(chunks.covers(at(2400), 2000)) << "the gap before 4000";
  EXPECT_FALSE(chunks.covers(at(0), 1));
  EXPECT_TRUE(chunks.covers(at(0), 0)) << "nothing is everywhere";
}

TEST(RegisteredChunks, Of_no_registration_cover_nothing) {
  const RegisteredChunks none({});
  EXPECT_EQ(none.run_at(at(1000)), 0u);
  EXPECT_FALSE(none.covers(at(1000), 1));
}

TEST(HostRegistration, Memory_that_is_no_whole_pages_is_refused_before_any_call) {
  const Pages pages(3 * 4096);
  for (const std::span<std::byte> wrong :
       {pages.bytes().subspan(8), pages.bytes().first(100), std::span<std::byte>{}}) {
    const auto registered = HostRegistration::register_memory(wrong, 0);
    ASSERT_FALSE(registered);
    EXPECT_EQ(registered.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(registered.error().message, HasSubstr("pages of 4 KiB"));
  }
}

TEST(HostRegistration, Without_a_device_is_an_error_that_says_so) {
  if (has_device()) GTEST_SKIP() << "there is a device";
  const Pages pages(3 * 4096);
  int told = 0;
  const auto registered = HostRegistration::register_memory(
      pages.bytes(), 0, [&](std::uint64_t, std::uint64_t) { ++told; });
  ASSERT_FALSE(registered);
  EXPECT_EQ(registered.error().code, ErrorCode::kSystem);
  EXPECT_THAT(registered.error().message, HasSubstr("cudaGetDeviceCount"));
  EXPECT_THAT(registered.error().message,
              AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no CUDA-capable device"),
                    HasSubstr("this build needs CUDA")));
  EXPECT_EQ(told, 0);
  EXPECT_EQ(registered_chunks()->run_at(pages.bytes().data()), 0u);
}

TEST(HostRegistration, Progress_may_look_at_the_chunks_and_register_other_memory) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  const Pages pages(3 * 4096), others(2 * 4096);
  std::shared_ptr<HostRegistration> other;
  bool usable_early = true;
  const auto registered =
      HostRegistration::register_memory(pages.bytes(), 0, [&](std::uint64_t, std::uint64_t) {
        usable_early = registered_chunks()->covers(pages.bytes().data(), 1);
        auto made = HostRegistration::register_memory(others.bytes(), 0);
        if (made) other = *made;
      });
  ASSERT_TRUE(registered);
  ASSERT_NE(other, nullptr);
  EXPECT_FALSE(usable_early) << "before all of it was registered";
  EXPECT_TRUE(registered_chunks()->covers(pages.bytes().data(), pages.bytes().size()));
  EXPECT_TRUE(registered_chunks()->covers(others.bytes().data(), others.bytes().size()));
  other.reset();
  EXPECT_FALSE(registered_chunks()->covers(others.bytes().data(), 1));
}

TEST(HostRegistration, A_device_that_is_not_there_is_refused_by_number) {
  if (!has_device()) GTEST_SKIP() << "there is no device";
  const Pages pages(3 * 4096);
  for (const int device : {-1, 1000}) {
    const auto registered = HostRegistration::register_memory(pages.bytes(), device);
    ASSERT_FALSE(registered);
    EXPECT_EQ(registered.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(registered.error().message, HasSubstr("device " + std::to_string(device)));
  }
}

}  // namespace
}  // namespace orlop::gpu
