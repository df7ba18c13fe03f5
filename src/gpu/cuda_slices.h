// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: puts slices of one direction on the device's streams.
//
//   restore, staged   copies segment -> ring | kernel ring -> cache (raises the progress word)
//   backup, staged    kernel cache -> ring | copies ring -> segment | signal: progress word
//   direct            kernel between segment and cache (raises it, or words of its blocks)
//   pieces            copies between segment and cache, kernel that sums the cache
//
// Between ring and cache a kernel is one of cuda_bulk.h where that takes the layout and the slice,
// else, and everywhere else, of cuda_move.h.
//
// `|` is another stream, joined by events, so that slices overlap like a pipeline. The progress
// word of a backup has a stream of its own: raised between two copies of one stream it keeps the
// link idle (a backup of 2 GiB then loses 1.2 % of the link, with its own stream 0.9 %). Two
// streams of copies were tried: restores lose 0.4 % and first layers come later, because copies
// share the link. Guarantees: slices complete in the order of run(), also across engines. Requires:
// the device is current. Thread: one at a time (the lane's mutex).
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/cuda_graph_launcher.h"
#include "gpu/cuda_job.h"
#include "gpu/cuda_resources.h"
#include "gpu/page_copier.h"

namespace orlop::gpu {

class SliceRunner {
 public:
  struct Options {
    CopyDirection direction{};
    std::uint64_t slot_bytes = 0;
    unsigned slots = 0;
    unsigned blocks = 0;
  };
  static constexpr std::uint32_t kMostValues = 8192;  // of a slice: sums in device memory

  static Result<std::unique_ptr<SliceRunner>> make(const Options& options);

  // Queues the slice. When it is complete the progress word becomes `ticket`. After an error parts
  // of it may be queued: drain().
  Result<void> run(const CudaJob& job, std::size_t slice, std::uint64_t ticket);
  // Records the event behind what was queued last.
  Result<void> record(cudaEvent_t event);
  // What runs wrong on the device shows here; cudaErrorNotReady is no error.
  cudaError_t state() const;
  // Waits until nothing of this direction runs.
  void drain();

  const std::shared_ptr<const LaneProgress>& progress() const { return progress_; }
  std::uint64_t copy_calls() const { return copy_calls_; }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    Event copied, moved;
    bool used = false;
  };
  using WriteValue = int (*)(cudaStream_t, std::uint64_t address, std::uint64_t value,
                             unsigned flags);

  explicit SliceRunner(const Options& options) : options_(options) {}
  Result<void> make_all();
  Result<void> start_job(const CudaJob& job);
  Result<void> change_engine(EngineKind engine);
  Result<void> run_staged_restore(const CudaJob& job, std::size_t slice, std::uint64_t ticket);
  Result<void> run_staged_backup(const CudaJob& job, std::size_t slice, std::uint64_t ticket);
  Result<void> run_direct(const CudaJob& job, std::size_t slice, std::uint64_t ticket);
  Result<void> run_brief(const CudaJob& job, std::uint64_t ticket);
  Result<void> run_pieces(const CudaJob& job, std::size_t slice, std::uint64_t ticket);
  // All streams wait for all that was queued on any.
  Result<void> join_streams();
  // The next work of `stream` waits for what is queued on `other` now.
  Result<void> wait_for(cudaStream_t stream, cudaStream_t other);
  // ticket: the kernel raises the progress word; 0: it does not.
  Result<void> launch(const CudaJob& job, std::size_t slice, MoveKind kind, std::byte* stage,
                      std::uint64_t ticket);
  bool is_for_bulk(const MoveArguments& a, MoveKind kind, const DeviceGeometry& geometry) const;
  Result<void> copy_strips(const CudaJob& job, const Slice& slice, std::byte* stage,
                           cudaStream_t stream);
  Result<void> copy_batch(cudaStream_t stream);  // batch_
  Result<void> raise_by_signal(std::uint64_t ticket);
  bool restoring() const { return options_.direction == CopyDirection::kRestore; }
  cudaStream_t last_stream() const;

  struct Batch {
    std::vector<void*> to;
    std::vector<const void*> from;
    std::vector<std::size_t> bytes;
    void clear();
    void add(void* destination, const void* source, std::size_t size);
  };

  const Options options_;
  std::array<cudaStream_t, 3> streams() const {
    return {copies_.get(), kernels_.get(), signals_.get()};
  }
  Stream copies_, kernels_, signals_;
  GraphLauncher launcher_;
  DeviceMemory ring_, sums_;
  unsigned int* arrived_ = nullptr;
  bool has_bulk_kernels_ = false;
  std::vector<Slot> slots_;
  Event joint_;
  std::size_t next_slot_ = 0;
  std::shared_ptr<const LaneProgress> progress_;
  WriteValue write_value_ = nullptr;
  std::optional<EngineKind> engine_;  // of the last slice
  std::uint64_t copy_calls_ = 0;
  std::vector<StripCopy> strips_;  // kept for their memory
  Batch batch_;
};

}  // namespace orlop::gpu
