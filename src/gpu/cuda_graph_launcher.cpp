// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_graph_launcher.h"

#include <algorithm>
#include <utility>

namespace orlop::gpu {

cudaError_t GraphLauncher::launch(const void* function, const LaunchShape& shape, void** parameters,
                                  cudaStream_t stream) {
  cudaKernelNodeParams params{};
  params.func = const_cast<void*>(function);
  params.gridDim = dim3(shape.blocks);
  params.blockDim = dim3(shape.threads);
  params.sharedMemBytes = static_cast<unsigned>(shape.shared_bytes);
  params.kernelParams = parameters;
  const auto known = std::ranges::find(launches_, function, &Launch::function);
  if (known == launches_.end()) {
    launches_.reserve(launches_.size() + 1);  // throws before anything is made
    Launch launch;
    if (const cudaError_t error = make(params, launch); error != cudaSuccess) return error;
    launches_.push_back(std::move(launch));
    return cudaGraphLaunch(launches_.back().exec.get(), stream);
  }
  // Of launches to come: those that are queued keep theirs.
  const cudaError_t error =
      cudaGraphExecKernelNodeSetParams(known->exec.get(), known->node, &params);
  return error != cudaSuccess ? error : cudaGraphLaunch(known->exec.get(), stream);
}

cudaError_t GraphLauncher::make(const cudaKernelNodeParams& params, Launch& launch) {
  launch.function = params.func;
  cudaGraph_t graph = nullptr;
  if (const cudaError_t error = cudaGraphCreate(&graph, 0); error != cudaSuccess) return error;
  launch.graph = in_this_context<Graph>(graph);
  cudaError_t error = cudaGraphAddKernelNode(&launch.node, graph, nullptr, 0, &params);
  if (error != cudaSuccess) return error;
  cudaGraphExec_t exec = nullptr;
  error = cudaGraphInstantiate(&exec, graph, 0);
  if (error != cudaSuccess) return error;
  launch.exec = in_this_context<GraphExec>(exec);
  return cudaSuccess;
}

}  // namespace orlop::gpu
