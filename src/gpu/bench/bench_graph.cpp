// SPDX-License-Identifier: Apache-2.0
// Whether copies change how fast a model's CUDA graph runs after them: decision 0017.
#include <algorithm>

#include "gpu/bench/bench_groups.h"
#include "gpu/cuda_call.h"
#include "gpu/cuda_move.h"

namespace orlop::gpu {
namespace {

constexpr int kKernels = 600;
constexpr int kReplays = 31;
constexpr int kCopies = 64;  // each way; some ten kernels in streams that were created are enough

// Into a stream that captures.
class PlainLauncher final : public KernelLauncher {
 public:
  cudaError_t launch(const void* function, const LaunchShape& shape, void** parameters,
                     cudaStream_t stream) override {
    return cudaLaunchKernel(function, dim3(shape.blocks), dim3(shape.threads), parameters,
                            shape.shared_bytes, stream);
  }
};

// Kernels that have nothing to do, one after the other: what is measured lies between them.
class IdleGraph {
 public:
  static Result<std::unique_ptr<IdleGraph>> make();
  ~IdleGraph() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  IdleGraph(const IdleGraph&) = delete;
  IdleGraph& operator=(const IdleGraph&) = delete;

  // Microseconds a kernel, median; in the default stream, as engines run theirs.
  Result<double> timed() {
    std::vector<double> times;
    for (int i = 0; i < kReplays; ++i) {
      ORLOP_CUDA(cudaEventRecord, begin_, nullptr);
      ORLOP_CUDA(cudaGraphLaunch, exec_.get(), nullptr);
      ORLOP_CUDA(cudaEventRecord, end_, nullptr);
      ORLOP_CUDA(cudaEventSynchronize, end_);
      float ms = 0;
      ORLOP_CUDA(cudaEventElapsedTime, &ms, begin_, end_);
      times.push_back(static_cast<double>(ms) * 1e3 / kKernels);
    }
    std::ranges::sort(times);
    return times[kReplays / 2];
  }

 private:
  IdleGraph() = default;
  Result<void> capture();

  Stream stream_;
  DeviceMemory arrived_;
  Graph graph_;
  GraphExec exec_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

Result<std::unique_ptr<IdleGraph>> IdleGraph::make() {
  std::unique_ptr<IdleGraph> graph(new IdleGraph);
  auto stream = make_stream(false);
  BENCH_TRY(stream);
  graph->stream_ = std::move(*stream);
  auto memory = make_device_memory(sizeof(unsigned));
  BENCH_TRY(memory);
  graph->arrived_ = std::move(*memory);
  ORLOP_CUDA(cudaMemset, graph->arrived_.get(), 0, sizeof(unsigned));
  ORLOP_CUDA(cudaEventCreate, &graph->begin_);
  ORLOP_CUDA(cudaEventCreate, &graph->end_);
  BENCH_TRY(graph->capture());
  return graph;
}

Result<void> IdleGraph::capture() {
  MoveArguments nothing;
  nothing.arrived = reinterpret_cast<unsigned*>(arrived_.get());
  PlainLauncher launcher;
  ORLOP_CUDA(cudaStreamBeginCapture, stream_.get(), cudaStreamCaptureModeThreadLocal);
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < kKernels && error == cudaSuccess; ++i) {
    error = launch_move(nothing, MoveKind::kSumOnly, 16, 1, launcher, stream_.get());
  }
  cudaGraph_t captured = nullptr;
  ORLOP_CUDA(cudaStreamEndCapture, stream_.get(), &captured);
  graph_ = in_this_context<Graph>(captured);
  if (error != cudaSuccess) return cuda_failure(error, "cudaLaunchKernel");
  cudaGraphExec_t exec = nullptr;
  ORLOP_CUDA(cudaGraphInstantiate, &exec, captured, 0);
  exec_ = in_this_context<GraphExec>(exec);
  return {};
}

}  // namespace

Result<void> bench_graph(BenchRun& run) {
  auto graph = IdleGraph::make();
  BENCH_TRY(graph);
  auto both = both_ways(run, opaque_shape(64 << 10), 8, BenchPlacement::kScattered);
  BENCH_TRY(both);
  BENCH_TRY((*graph)->timed());  // warms up
  auto before = (*graph)->timed();
  BENCH_TRY(before);
  for (int i = 0; i < kCopies; ++i) {
    BENCH_TRY(both->backup.run(run.copier));
    BENCH_TRY(both->restore.run(run.copier));
  }
  auto after = (*graph)->timed();
  BENCH_TRY(after);
  run.rows.push_back({.group = "graph",
                      .name = "a kernel of a CUDA graph after copies / before",
                      .unit = "us",
                      .value = *after,
                      .baseline = *before,
                      .judged = *after / *before,
                      .bar_kind = BarKind::kAtMost,
                      .bar = 1.03,
                      .note = std::to_string(kCopies) + " each way"});
  return {};
}

}  // namespace orlop::gpu
