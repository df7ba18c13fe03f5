// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_call.h"

#include <string>

namespace orlop::gpu {

std::unexpected<Error> cuda_failure(cudaError_t error, std::string_view call) {
  (void)cudaGetLastError();
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kNoMemory : ErrorCode::kSystem;
  std::string message(call);
  message += ": ";
  message += cudaGetErrorString(error);
  message += " (" + std::to_string(static_cast<int>(error)) + ")";
  return fail(code, std::move(message));
}

DeviceScope::DeviceScope(int device) {
  int now = 0;
  if (cudaGetDevice(&now) == cudaSuccess && now == device) return;
  before_ = now;
  (void)cudaSetDevice(device);  // a failure shows in the calls that follow
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

}  // namespace orlop::gpu
