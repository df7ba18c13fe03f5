// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: why value memory could not be registered, and what to do about it. Pure.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "orlop/error.h"

namespace orlop::gpu {

struct RegistrationAttempt {
  cudaError_t error = cudaSuccess;       // of cudaHostRegister
  std::uint64_t done = 0, all = 0;       // bytes of the mapping
  std::uint64_t chunk = 0;               // bytes that were refused
  std::optional<std::uint64_t> memlock;  // RLIMIT_MEMLOCK, soft; none: unlimited
};

// kNoMemory: the limit of locked memory, or memory itself; kWrongState: other code of this process
// has registered it; kSystem: it is not allowed here, or something else of CUDA.
Error registration_failure(const RegistrationAttempt& attempt);

}  // namespace orlop::gpu
