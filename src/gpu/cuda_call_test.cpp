// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::gpu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(CudaFailure, Names_the_call_what_happened_and_its_number) {
  const Error error = cuda_failure(cudaErrorIllegalAddress, "cudaMemcpyAsync").error();
  EXPECT_EQ(error.code, ErrorCode::kSystem);
  EXPECT_EQ(error.message, "cudaMemcpyAsync: an illegal memory access was encountered (700)");
}

TEST(CudaFailure, Memory_that_ran_out_has_its_own_code) {
  const Error error = cuda_failure(cudaErrorMemoryAllocation, "cudaMalloc").error();
  EXPECT_EQ(error.code, ErrorCode::kNoMemory);
  EXPECT_THAT(error.message, StartsWith("cudaMalloc: "));
}

TEST(CudaFailure, Of_the_driver_says_which_one_is_there) {
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  const Error error = cuda_failure(cudaErrorInsufficientDriver, "cudaGetDeviceCount").error();
  EXPECT_EQ(error.code, ErrorCode::kSystem);
  if (version == 0) {
    EXPECT_THAT(error.message, HasSubstr("no NVIDIA driver"));
  } else {
    EXPECT_THAT(error.message, HasSubstr("the driver's CUDA is " + std::to_string(version / 1000)));
  }
}

// Fails on every machine: there is no such device, or no device at all.
Result<int> use_device_that_is_not_there() {
  ORLOP_CUDA(cudaSetDevice, 100'000);
  return 7;
}

TEST(CudaCall, A_failure_returns_and_is_not_told_again) {
  const Result<int> result = use_device_that_is_not_there();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, StartsWith("cudaSetDevice: "));
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  if (version == 0) GTEST_SKIP() << "without a driver cudart has this error for every question";
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

Result<int> call_that_works() {
  int version = 0;
  ORLOP_CUDA(cudaRuntimeGetVersion, &version);
  return version;
}

TEST(CudaCall, A_success_goes_on) {
  const Result<int> version = call_that_works();
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, CUDART_VERSION) << "the library that is linked in is the one of the headers";
}

}  // namespace
}  // namespace orlop::gpu
