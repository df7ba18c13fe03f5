// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_call.h"

#include <string>

namespace orlop::gpu {
namespace {

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// CUDA calls a driver that is not there one that is too old.
std::string what_of_the_driver() {
  int version = 0;
  (void)cudaDriverGetVersion(&version);
  if (version == 0) return "; there is no NVIDIA driver here";
  return "; the driver's CUDA is " + cuda_version(version) + ", this build needs CUDA " +
         cuda_version(CUDART_VERSION);
}

}  // namespace

std::unexpected<Error> cuda_failure(cudaError_t error, std::string_view call) {
  (void)cudaGetLastError();
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kNoMemory : ErrorCode::kSystem;
  std::string message(call);
  message += ": ";
  message += cudaGetErrorString(error);
  message += " (" + std::to_string(static_cast<int>(error)) + ")";
  if (error == cudaErrorInsufficientDriver) message += what_of_the_driver();
  return fail(code, std::move(message));
}

Result<void> check_device(int device) {
  int devices = 0;
  ORLOP_CUDA(cudaGetDeviceCount, &devices);
  if (device >= 0 && device < devices) return {};
  return fail(ErrorCode::kInvalidArgument, "device " + std::to_string(device) + " of " +
                                               std::to_string(devices) +
                                               "; devices are numbered from 0");
}

}  // namespace orlop::gpu
