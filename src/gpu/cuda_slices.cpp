// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_slices.h"

#include <cuda.h>

#include <algorithm>

#include "base/check.h"
#include "copy/checksum.h"
#include "gpu/cuda_brief.h"
#include "gpu/cuda_bulk.h"
#include "gpu/cuda_call.h"
#include "gpu/cuda_pieces.h"

#define ORLOP_TRY(expression)                                                               \
  do {                                                                                      \
    if (::orlop::Result<void> orlop_tried = (expression); !orlop_tried) return orlop_tried; \
  } while (false)

namespace orlop::gpu {
namespace {

constexpr std::size_t kSumsBytes = SliceRunner::kMostValues * sizeof(std::uint64_t);

}  // namespace

Result<std::unique_ptr<SliceRunner>> SliceRunner::make(const Options& options) {
  std::unique_ptr<SliceRunner> runner(new SliceRunner(options));
  if (Result<void> made = runner->make_all(); !made) return std::unexpected(made.error());
  return runner;
}

Result<void> SliceRunner::make_all() {
  ORLOP_CUDA(load_move_kernels);
  ORLOP_CUDA(load_brief_kernels);
  ORLOP_CUDA(load_bulk_kernels, &has_bulk_kernels_);
  const auto take = [](auto& to, auto made) -> Result<void> {
    if (!made) return std::unexpected(made.error());
    to = std::move(*made);
    return {};
  };
  ORLOP_TRY(take(copies_, make_stream(false)));
  ORLOP_TRY(take(kernels_, make_stream(true)));
  ORLOP_TRY(take(signals_, make_stream(true)));
  ORLOP_TRY(take(ring_, make_device_memory(options_.slots * options_.slot_bytes)));
  ORLOP_TRY(take(sums_, make_device_memory(kSumsBytes + sizeof(std::uint64_t))));
  arrived_ = reinterpret_cast<unsigned int*>(sums_.get() + kSumsBytes);
  // In the kernels' stream: what the default stream holds is the engine's, may take long, and comes
  // before nothing of ours.
  ORLOP_CUDA(cudaMemsetAsync, sums_.get(), 0, kSumsBytes + sizeof(std::uint64_t), kernels_.get());
  ORLOP_TRY(take(joint_, make_event()));
  for (unsigned i = 0; i < options_.slots; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.memory = ring_.get() + i * options_.slot_bytes;
    ORLOP_TRY(take(slot.copied, make_event()));
    ORLOP_TRY(take(slot.moved, make_event()));
  }
  PinnedMemory word;
  ORLOP_TRY(take(word, make_pinned_memory(LaneProgress::kBytes)));
  progress_ = std::make_shared<const LaneProgress>(std::move(word));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  ORLOP_CUDA(cudaGetDriverEntryPointByVersion, "cuStreamWriteValue64", &entry, 12000,
             cudaEnableDefault, &found);
  if (found != cudaDriverEntryPointSuccess || entry == nullptr) {
    return fail(ErrorCode::kSystem,
                "the NVIDIA driver has no cuStreamWriteValue64; install one of CUDA 12 or later");
  }
  write_value_ = reinterpret_cast<WriteValue>(entry);
  return {};
}

Result<void> SliceRunner::run(const CudaJob& job, std::size_t slice, std::uint64_t ticket) {
  CHECK(job.parts.slices[slice].count <= kMostValues, "sums of a slice");
  if (engine_ != job.parts.engine) ORLOP_TRY(change_engine(job.parts.engine));
  if (slice == 0 && job.parts.start != nullptr) ORLOP_TRY(start_job(job));
  switch (job.parts.engine) {
    case EngineKind::kDirect:
      return run_direct(job, slice, ticket);
    case EngineKind::kPieces:
      return run_pieces(job, slice, ticket);
    default:
      return restoring() ? run_staged_restore(job, slice, ticket)
                         : run_staged_backup(job, slice, ticket);
  }
}

// Engines end on different streams: whatever comes waits for all that went before.
Result<void> SliceRunner::change_engine(EngineKind engine) {
  if (engine_) ORLOP_TRY(join_streams());
  engine_ = engine;
  return {};
}

Result<void> SliceRunner::join_streams() {
  // Into one stream, and from there into all.
  const auto all = streams();
  for (const cudaStream_t other : all) {
    if (other != kernels_.get()) ORLOP_TRY(wait_for(kernels_.get(), other));
  }
  for (const cudaStream_t other : all) {
    if (other != kernels_.get()) ORLOP_TRY(wait_for(other, kernels_.get()));
  }
  return {};
}

Result<void> SliceRunner::wait_for(cudaStream_t stream, cudaStream_t other) {
  // A wait is for what the event holds at this moment: it may be used again at once.
  ORLOP_CUDA(cudaEventRecord, joint_.get(), other);
  ORLOP_CUDA(cudaStreamWaitEvent, stream, joint_.get(), 0);
  return {};
}

// Only what touches the cache waits for the caller's stream: staged copies may run ahead of it.
Result<void> SliceRunner::start_job(const CudaJob& job) {
  ORLOP_CUDA(cudaStreamWaitEvent, kernels_.get(), job.parts.start.get(), 0);
  if (job.parts.engine == EngineKind::kPieces) {
    ORLOP_CUDA(cudaStreamWaitEvent, copies_.get(), job.parts.start.get(), 0);
  }
  return {};
}

Result<void> SliceRunner::run_staged_restore(const CudaJob& job, std::size_t slice,
                                             std::uint64_t ticket) {
  const cudaStream_t copies = copies_.get();
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  if (slot.used) ORLOP_CUDA(cudaStreamWaitEvent, copies, slot.moved.get(), 0);
  ORLOP_TRY(copy_strips(job, job.parts.slices[slice], slot.memory, copies));
  ORLOP_CUDA(cudaEventRecord, slot.copied.get(), copies);
  ORLOP_CUDA(cudaStreamWaitEvent, kernels_.get(), slot.copied.get(), 0);
  ORLOP_TRY(launch(job, slice, MoveKind::kScatter, slot.memory, ticket));
  ORLOP_CUDA(cudaEventRecord, slot.moved.get(), kernels_.get());
  slot.used = true;
  return {};
}

Result<void> SliceRunner::run_staged_backup(const CudaJob& job, std::size_t slice,
                                            std::uint64_t ticket) {
  const cudaStream_t copies = copies_.get();
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  if (slot.used) ORLOP_CUDA(cudaStreamWaitEvent, kernels_.get(), slot.copied.get(), 0);
  ORLOP_TRY(launch(job, slice, MoveKind::kGather, slot.memory, 0));
  ORLOP_CUDA(cudaEventRecord, slot.moved.get(), kernels_.get());
  ORLOP_CUDA(cudaStreamWaitEvent, copies, slot.moved.get(), 0);
  ORLOP_TRY(copy_strips(job, job.parts.slices[slice], slot.memory, copies));
  ORLOP_CUDA(cudaEventRecord, slot.copied.get(), copies);
  slot.used = true;
  ORLOP_CUDA(cudaStreamWaitEvent, signals_.get(), slot.copied.get(), 0);
  return raise_by_signal(ticket);
}

Result<void> SliceRunner::run_direct(const CudaJob& job, std::size_t slice, std::uint64_t ticket) {
  if (job.parts.brief) return run_brief(job, ticket);
  return launch(job, slice, restoring() ? MoveKind::kScatter : MoveKind::kGather, nullptr, ticket);
}

Result<void> SliceRunner::run_brief(const CudaJob& job, std::uint64_t ticket) {
  const CudaJobParts& parts = job.parts;
  const auto values = static_cast<std::uint32_t>(parts.values.size());
  BriefArguments a;
  a.chunks_of_value = parts.sums_per_value;
  a.count = values * a.chunks_of_value;
  a.sums_out = parts.sums;
  a.words = progress_->block_words();
  a.ticket = ticket;
  std::ranges::copy(parts.values, a.values);
  for (std::uint32_t i = 0; i < values; ++i) {
    chunk_addresses(*parts.layout,
                    parts.numbers + std::size_t{i} * parts.geometry->numbers_per_value(),
                    a.chunks + std::size_t{i} * a.chunks_of_value);
  }
  const unsigned blocks = std::min({options_.blocks, kBriefBlocks, a.count});
  ORLOP_CUDA(launch_brief, a, restoring(), blocks, launcher_, kernels_.get());
  return {};
}

Result<void> SliceRunner::run_pieces(const CudaJob& job, std::size_t slice, std::uint64_t ticket) {
  batch_.clear();
  for_each_piece(job.parts, job.parts.slices[slice],
                 [&](std::byte* in_value, std::byte* in_cache, std::uint64_t bytes) {
                   batch_.add(restoring() ? in_cache : in_value, restoring() ? in_value : in_cache,
                              bytes);
                 });
  const cudaStream_t copies = copies_.get();
  // The pages may be those of the job before, whose sums are still to be taken there.
  if (restoring() && slice == 0) ORLOP_TRY(wait_for(copies, kernels_.get()));
  ORLOP_TRY(copy_batch(copies));
  if (restoring()) {
    ORLOP_TRY(wait_for(kernels_.get(), copies));
    return launch(job, slice, MoveKind::kSumOnly, ring_.get(), ticket);
  }
  ORLOP_TRY(launch(job, slice, MoveKind::kSumOnly, ring_.get(), 0));
  ORLOP_TRY(wait_for(signals_.get(), kernels_.get()));
  ORLOP_TRY(wait_for(signals_.get(), copies));
  return raise_by_signal(ticket);
}

Result<void> SliceRunner::launch(const CudaJob& job, std::size_t index, MoveKind kind,
                                 std::byte* stage, std::uint64_t ticket) {
  const CudaJobParts& parts = job.parts;
  const Slice& slice = parts.slices[index];
  const DeviceGeometry& geometry = *parts.geometry;
  MoveArguments a;
  a.parts = geometry.parts();
  a.part_of_chunk = geometry.part_of_chunk();
  a.begin = static_cast<std::uint32_t>(slice.begin);
  a.end = static_cast<std::uint32_t>(slice.end);
  a.count = slice.count;
  const std::uint64_t chunks = (slice.end + kChecksumChunkBytes - 1) / kChecksumChunkBytes -
                               slice.begin / kChecksumChunkBytes;
  const std::uint64_t items = slice.count * chunks;
  CHECK(items < std::uint64_t{1} << 31, "chunks of a slice");
  a.by_chunks = FastDivision::by(static_cast<std::uint32_t>(chunks));
  a.numbers_per_value = geometry.numbers_per_value();
  a.token_first = geometry.token_first();
  a.equal_parts = geometry.equal_parts();
  a.by_chunks_of_part = geometry.by_chunks_of_part();
  if (stage != nullptr) {
    a.stage = stage + slice.lead();
    a.pitch = slice.pitch();
  } else if (slice.count <= kInlineValues) {
    std::copy_n(parts.values.begin() + slice.first, slice.count, a.inline_values);
  } else {
    a.value_addresses = parts.addresses + slice.first;
  }
  const std::uint32_t* const numbers =
      parts.numbers + std::size_t{slice.first} * a.numbers_per_value;
  const std::uint64_t count = std::uint64_t{slice.count} * a.numbers_per_value;
  if (count <= kInlineNumbers) {
    std::copy_n(numbers, count, a.inline_numbers);
  } else {
    a.numbers = numbers;
  }
  a.sums = reinterpret_cast<unsigned long long*>(sums_.get());
  a.arrived = arrived_;
  a.sums_out = parts.sums + parts.sums_at[index];
  a.flag = ticket != 0 ? progress_->word() : nullptr;
  a.ticket = ticket;
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(options_.blocks, items));
  if (is_for_bulk(a, kind, geometry)) {
    ORLOP_CUDA(launch_bulk, a, kind, blocks, launcher_, kernels_.get());
  } else {
    ORLOP_CUDA(launch_move, a, kind, geometry.unit(), blocks, launcher_, kernels_.get());
  }
  return {};
}

bool SliceRunner::is_for_bulk(const MoveArguments& a, MoveKind kind,
                              const DeviceGeometry& geometry) const {
  return has_bulk_kernels_ && kind != MoveKind::kSumOnly && geometry.unit() >= 16 &&
         geometry.least_row_bytes() >= kLeastBulkRow && bulk_takes(a);
}

Result<void> SliceRunner::copy_strips(const CudaJob& job, const Slice& slice, std::byte* stage,
                                      cudaStream_t stream) {
  strips_.clear();
  strip_copies(
      slice, job.parts.values, [&](const void* at) { return job.parts.chunks->run_at(at); },
      strips_);
  batch_.clear();
  for (const StripCopy& strip : strips_) {
    std::byte* const at = stage + strip.stage;
    void* const to = restoring() ? at : strip.host;
    const void* const from = restoring() ? strip.host : at;
    if (strip.rows == 1) {
      batch_.add(to, from, strip.bytes);
      continue;
    }
    const std::size_t to_pitch = restoring() ? strip.stage_pitch : strip.host_pitch;
    const std::size_t from_pitch = restoring() ? strip.host_pitch : strip.stage_pitch;
    ORLOP_CUDA(cudaMemcpy2DAsync, to, to_pitch, from, from_pitch, strip.bytes, strip.rows,
               restoring() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
    ++copy_calls_;
  }
  return copy_batch(stream);
}

Result<void> SliceRunner::copy_batch(cudaStream_t stream) {
  if (batch_.to.empty()) return {};
  ++copy_calls_;
  if (batch_.to.size() == 1) {
    ORLOP_CUDA(cudaMemcpyAsync, batch_.to[0], batch_.from[0], batch_.bytes[0],
               restoring() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
    return {};
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  ORLOP_CUDA(cudaMemcpyBatchAsync, batch_.to.data(), batch_.from.data(), batch_.bytes.data(),
             batch_.to.size(), &attributes, &first, 1, stream);
  return {};
}

Result<void> SliceRunner::raise_by_signal(std::uint64_t ticket) {
  const int error = write_value_(signals_.get(), reinterpret_cast<std::uint64_t>(progress_->word()),
                                 ticket, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (error != CUDA_SUCCESS) {
    return fail(ErrorCode::kSystem, "cuStreamWriteValue64: error " + std::to_string(error));
  }
  return {};
}

cudaStream_t SliceRunner::last_stream() const {
  return restoring() || engine_ == EngineKind::kDirect ? kernels_.get() : signals_.get();
}

Result<void> SliceRunner::record(cudaEvent_t event) {
  ORLOP_CUDA(cudaEventRecord, event, last_stream());
  return {};
}

cudaError_t SliceRunner::state() const {
  for (const cudaStream_t stream : streams()) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error != cudaSuccess && error != cudaErrorNotReady) return error;
  }
  return cudaSuccess;
}

void SliceRunner::drain() {
  for (const cudaStream_t stream : streams()) (void)cudaStreamSynchronize(stream);
}

void SliceRunner::Batch::clear() {
  to.clear();
  from.clear();
  bytes.clear();
}

void SliceRunner::Batch::add(void* destination, const void* source, std::size_t size) {
  to.push_back(destination);
  from.push_back(source);
  bytes.push_back(size);
}

}  // namespace orlop::gpu
