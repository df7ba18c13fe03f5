// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: CUDA calls as values. ORLOP_CUDA(name, arguments...) returns from the
// enclosing function with an Error that names the call when it fails.
// Thread: any.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "orlop/error.h"

namespace orlop::gpu {

// "cudaMemcpyAsync: an illegal memory access was encountered". Also takes the error out of the
// thread's CUDA state, so that the next call does not report it again. kNoMemory when memory ran
// out, else kSystem.
std::unexpected<Error> cuda_failure(cudaError_t error, std::string_view call);

// kInvalidArgument: the number is of no device; names how many there are. kSystem: no driver.
Result<void> check_device(int device);

}  // namespace orlop::gpu

#define ORLOP_CUDA(call, ...)                                                                      \
  do {                                                                                             \
    if (const cudaError_t orlop_cuda_error = call(__VA_ARGS__); orlop_cuda_error != cudaSuccess) { \
      return ::orlop::gpu::cuda_failure(orlop_cuda_error, #call);                                  \
    }                                                                                              \
  } while (false)
