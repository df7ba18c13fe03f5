// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: puts kernels into streams, each as a CUDA graph of this one kernel.
//
// Not by cudaLaunchKernel: a process that has put some ten kernels that way into streams that were
// created (the default stream does not count, nor do copies, memsets, waits and graphs) has from
// then on 0.2 to 0.4 us more between any two kernels. An engine that decodes with graphs of 500
// kernels loses 4 % of each step (H200, driver 580; decision 0017).
//
// Guarantees: a launch has the parameters of its own call, also while earlier ones have yet to run.
// Requires: the device is current (DeviceScope), always the same. Thread: one at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "gpu/cuda_launch.h"
#include "gpu/cuda_resources.h"

namespace orlop::gpu {

class GraphLauncher final : public KernelLauncher {
 public:
  // The first launch of a function makes its graph, which takes longer.
  cudaError_t launch(const void* function, const LaunchShape& shape, void** parameters,
                     cudaStream_t stream) override;

 private:
  struct Launch {
    const void* function = nullptr;
    Graph graph;  // owns the node
    cudaGraphNode_t node = nullptr;
    GraphExec exec;
  };
  static cudaError_t make(const cudaKernelNodeParams& params, Launch& launch);

  std::vector<Launch> launches_;  // one a function: no more than there are kernels
};

}  // namespace orlop::gpu
