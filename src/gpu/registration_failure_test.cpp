// SPDX-License-Identifier: Apache-2.0
#include "gpu/registration_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace orlop::gpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

RegistrationAttempt attempt(cudaError_t error, std::optional<std::uint64_t> memlock = {}) {
  return {.error = error, .done = 2 * kGiB, .all = 7 * kGiB, .chunk = kGiB, .memlock = memlock};
}

TEST(RegistrationFailure, Of_any_kind_says_call_error_and_how_far_it_came) {
  for (const cudaError_t error :
       {cudaErrorMemoryAllocation, cudaErrorHostMemoryAlreadyRegistered, cudaErrorNotPermitted,
        cudaErrorNotSupported, cudaErrorOperatingSystem, cudaErrorECCUncorrectable}) {
    EXPECT_THAT(registration_failure(attempt(error)).message,
                AllOf(HasSubstr("cudaHostRegister: "),
                      HasSubstr("(" + std::to_string(static_cast<int>(error)) + ")"),
                      HasSubstr("2.00 GiB of 7.00 GiB of value memory were registered")));
  }
}

TEST(RegistrationFailure, Of_a_low_limit_of_locked_memory_says_to_raise_it) {
  // Enough for what is registered, not for one chunk more.
  const Error error = registration_failure(attempt(cudaErrorMemoryAllocation, 3 * kGiB - 1));
  EXPECT_EQ(error.code, ErrorCode::kNoMemory);
  EXPECT_THAT(error.message, AllOf(HasSubstr("limit of locked memory is 3.00 GiB"),
                                   HasSubstr("ulimit -l unlimited"), HasSubstr("memlock=-1")));
}

TEST(RegistrationFailure, Of_memory_does_not_blame_a_limit_that_is_high_enough) {
  for (const std::optional<std::uint64_t> enough :
       {std::optional<std::uint64_t>{}, std::optional<std::uint64_t>{3 * kGiB}}) {
    const Error error = registration_failure(attempt(cudaErrorMemoryAllocation, enough));
    EXPECT_EQ(error.code, ErrorCode::kNoMemory);
    EXPECT_THAT(error.message, AllOf(HasSubstr("no memory left to pin"), HasSubstr("memory.max"),
                                     HasSubstr("--capacity"), Not(HasSubstr("ulimit"))));
  }
}

TEST(RegistrationFailure, Of_memory_that_others_registered_is_no_lack) {
  const Error error = registration_failure(attempt(cudaErrorHostMemoryAlreadyRegistered, 4096));
  EXPECT_EQ(error.code, ErrorCode::kWrongState);
  EXPECT_THAT(error.message, AllOf(HasSubstr("cudaHostUnregister"), Not(HasSubstr("ulimit"))));
}

TEST(RegistrationFailure, Of_a_machine_that_forbids_it_is_no_lack) {
  for (const cudaError_t refused :
       {cudaErrorNotPermitted, cudaErrorNotSupported, cudaErrorOperatingSystem}) {
    const Error error = registration_failure(attempt(refused, 4096));
    EXPECT_EQ(error.code, ErrorCode::kSystem);
    EXPECT_THAT(error.message, AllOf(HasSubstr("not allowed here"), HasSubstr("orlop doctor"),
                                     Not(HasSubstr("ulimit"))));
  }
}

TEST(RegistrationFailure, Of_the_device_is_not_called_a_lack_of_memory) {
  const Error error = registration_failure(attempt(cudaErrorECCUncorrectable, 4096));
  EXPECT_EQ(error.code, ErrorCode::kSystem);
  EXPECT_THAT(error.message, Not(HasSubstr("ulimit")));
}

}  // namespace
}  // namespace orlop::gpu
