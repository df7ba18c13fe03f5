// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: what puts a kernel into a stream. Plain C++20: nvcc reads this too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace orlop::gpu {

struct LaunchShape {
  unsigned blocks = 0, threads = 0;
  std::size_t shared_bytes = 0;
};

class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  // parameters: as cudaLaunchKernel takes them; they are copied. Error: of this launch alone, not
  // what another library of this process left behind on this thread; nothing is launched then.
  virtual cudaError_t launch(const void* function, const LaunchShape& shape, void** parameters,
                             cudaStream_t stream) = 0;
};

}  // namespace orlop::gpu
