// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_copier.h"

#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/check.h"
#include "copy/checksum.h"
#include "gpu/copier_thread.h"
#include "gpu/copy_request.h"
#include "gpu/cuda_call.h"
#include "gpu/cuda_lane.h"
#include "gpu/cuda_pieces.h"
#include "gpu/device_scope.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kLeastSlot = 64 * 1024;
constexpr std::uint64_t kSlotUnit = 4096;
// Copies of pieces that one call takes; a value of more goes to another engine.
constexpr std::uint64_t kMostPieces = 4096;

bool are_adjacent(std::span<std::byte* const> values, std::uint64_t value_len) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] != values[i - 1] + value_len) return false;
  }
  return true;
}

bool are_aligned(std::span<std::byte* const> values) {
  return std::ranges::all_of(
      values, [](std::byte* at) { return reinterpret_cast<std::uint64_t>(at) % 16 == 0; });
}

class Copier final : public CudaCopier {
 public:
  explicit Copier(const CudaCopierOptions& options) : options_(options) {}
  ~Copier() override;
  Result<void> make_lanes();

  EngineKind kind() const override { return options_.engine.value_or(EngineKind::kStaged); }
  Result<std::shared_ptr<CopyJob>> submit(const CopyRequest& request, OnCopyDone on_done) override;
  EngineKind engine_for(const CompiledLayout& layout, CopyDirection direction, std::size_t values,
                        bool adjacent) const override;
  Stats stats() const override;

 private:
  CudaLane& lane(CopyDirection direction) const {
    return direction == CopyDirection::kBackup ? *backups_ : *restores_;
  }
  EngineKind engine_of(const CopyRequest& request) const;
  bool is_brief(const CudaJobParts& parts) const;
  SliceLimits limits(EngineKind engine, const CompiledLayout& layout, CopyDirection direction,
                     std::uint32_t numbers_per_value) const;
  Result<CudaJobParts> parts_of(const CopyRequest& request,
                                std::span<const CompiledLayout::Strip> strips);
  Result<void> take_events(const CopyRequest& request, CudaJobParts& parts);
  Result<void> fill_lists(const CopyRequest& request, CudaJobParts& parts);
  void look_after_jobs();

  const CudaCopierOptions options_;
  // The longest slice of a staged copy, and how many bytes are on their way when the next goes.
  struct Flow {
    std::uint64_t slice_bytes = 0, window_bytes = 0;
  };
  Flow flow(CopyDirection direction) const;

  std::uint64_t slot_bytes_ = 0;
  bool direct_possible_ = false;
  std::shared_ptr<CudaLane> backups_, restores_;
  GeometryCache geometries_;
  const std::shared_ptr<PinnedPool> pool_ = std::make_shared<PinnedPool>();
  const std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();

  mutable std::mutex mutex_;  // what follows
  std::condition_variable work_;
  std::thread thread_;  // made with the first job
  std::size_t jobs_ = 0;
  bool ending_ = false;
  Stats stats_;
};

Result<void> Copier::make_lanes() {
  const DeviceScope scope(options_.device);
  if (!scope.entered()) return scope.entered();
  int host_pointers = 0;
  ORLOP_CUDA(cudaDeviceGetAttribute, &host_pointers, cudaDevAttrCanUseHostPointerForRegisteredMem,
             options_.device);
  direct_possible_ = host_pointers != 0;
  slot_bytes_ = options_.staging_bytes / options_.slots / kSlotUnit * kSlotUnit;
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    Result<std::unique_ptr<SliceRunner>> runner = SliceRunner::make({.direction = direction,
                                                                     .slot_bytes = slot_bytes_,
                                                                     .slots = options_.slots,
                                                                     .blocks = options_.blocks});
    if (!runner) return std::unexpected(runner.error());
    (direction == CopyDirection::kBackup ? backups_ : restores_) =
        std::make_shared<CudaLane>(queue_of(std::move(*runner)), options_.device,
                                   options_.callers_bytes, flow(direction).window_bytes);
  }
  return {};
}

Copier::Flow Copier::flow(CopyDirection direction) const {
  if (direction == CopyDirection::kRestore || options_.backup_burst_bytes == 0) {
    return {slot_bytes_, options_.window_bytes};
  }
  const std::uint64_t burst = options_.backup_burst_bytes / kSlotUnit * kSlotUnit;
  return {std::min(slot_bytes_, burst), 1};  // the next one when nothing is on its way
}

Copier::~Copier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  CHECK(thread_.get_id() != std::this_thread::get_id(),
        "a copier was destroyed by the callback of its own job");
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<CopyJob>> Copier::submit(const CopyRequest& request, OnCopyDone on_done) {
  const Result<std::vector<CompiledLayout::Strip>> strips = check_request(request);
  if (!strips) return std::unexpected(strips.error());
  const DeviceScope scope(options_.device);
  if (!scope.entered()) return std::unexpected(scope.entered().error());
  Result<CudaJobParts> parts = parts_of(request, *strips);
  if (!parts) return std::unexpected(std::move(parts.error()));
  parts->on_done = std::move(on_done);
  const EngineKind engine = parts->engine;
  CudaLane& to = lane(request.direction);
  auto job = std::make_shared<CudaJob>(
      std::move(*parts), request.direction == CopyDirection::kBackup ? backups_ : restores_,
      to.progress());
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return fail(ErrorCode::kClosed, "the copier is being closed");
    if (!thread_.joinable()) {
      Result<std::thread> started = start_copier_thread("orlop-gpu", [this] { look_after_jobs(); });
      if (!started) return std::unexpected(std::move(started.error()));
      thread_ = std::move(*started);
    }
    ++jobs_;
    ++stats_.jobs[static_cast<std::size_t>(engine)];
  }
  try {
    to.add(job);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --jobs_;
    --stats_.jobs[static_cast<std::size_t>(engine)];
    throw;
  }
  work_.notify_one();
  return job;
}

EngineKind Copier::engine_for(const CompiledLayout& layout, CopyDirection direction,
                              std::size_t values, bool adjacent) const {
  const EngineKind wish =
      options_.engine ? *options_.engine
                      : options_.table.choose(direction, adjacent, layout.typical_row_bytes(),
                                              values * layout.value_len());
  if (wish == EngineKind::kPieces && layout.rows() > kMostPieces) {
    return EngineKind::kStaged;
  }
  if (wish != EngineKind::kDirect) return wish;
  // Kernels that read and write host memory lose a third of the link when both directions run.
  const bool other_busy =
      !options_.engine &&
      !lane(direction == CopyDirection::kBackup ? CopyDirection::kRestore : CopyDirection::kBackup)
           .idle();
  return direct_possible_ && !other_busy ? EngineKind::kDirect : EngineKind::kStaged;
}

EngineKind Copier::engine_of(const CopyRequest& request) const {
  const EngineKind engine = engine_for(*request.layout, request.direction, request.values.size(),
                                       are_adjacent(request.values, request.layout->value_len()));
  return engine == EngineKind::kDirect && !are_aligned(request.values) ? EngineKind::kStaged
                                                                       : engine;
}

SliceLimits Copier::limits(EngineKind engine, const CompiledLayout& layout, CopyDirection direction,
                           std::uint32_t numbers_per_value) const {
  SliceLimits limits;
  limits.most_bytes = flow(direction).slice_bytes;
  limits.most_values = SliceRunner::kMostValues;
  limits.numbers_per_value = numbers_per_value;
  limits.most_numbers = kSharedNumbers;
  if (engine == EngineKind::kStaged) {
    // Behind a slot of bytes a kernel has company on the link already. Short slices would only be
    // more of them, and beside a model each one's kernel waits for multiprocessors.
    if (lane(direction).bytes_on_their_way() >= limits.most_bytes) {
      limits.least_bytes = limits.most_bytes;
    }
    return limits;
  }
  limits.least_bytes = limits.most_bytes;  // nothing to overlap
  if (engine == EngineKind::kDirect) limits.most_values = kSharedValues;
  if (engine == EngineKind::kPieces) {
    const std::uint64_t rows = std::max<std::uint64_t>(layout.rows(), 1);
    limits.most_values = static_cast<std::uint32_t>(std::max<std::uint64_t>(kMostPieces / rows, 1));
  }
  return limits;
}

bool Copier::is_brief(const CudaJobParts& parts) const {
  const std::uint64_t value_len = parts.layout->value_len();
  const unsigned blocks = std::min(options_.blocks, kBriefBlocks);
  return parts.engine == EngineKind::kDirect && parts.slices.size() == 1 &&
         parts.geometry->rows_are_chunks() && parts.geometry->unit() == 16 &&
         parts.values.size() <= kBriefValues && parts.slices[0].count == parts.values.size() &&
         parts.slices[0].begin == 0 && parts.slices[0].end == value_len &&
         parts.values.size() * (value_len / kChecksumChunkBytes) <= blocks * kBriefChunksOfBlock;
}

Result<CudaJobParts> Copier::parts_of(const CopyRequest& request,
                                      std::span<const CompiledLayout::Strip> strips) {
  const CompiledLayout& layout = *request.layout;
  CudaJobParts parts;
  parts.direction = request.direction;
  parts.device = options_.device;
  parts.layout = &layout;
  parts.chunks = registered_chunks();
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    if (!parts.chunks->covers(request.values[i], layout.value_len())) {
      return fail(ErrorCode::kInvalidArgument,
                  "copy: value " + std::to_string(i) +
                      " is not in memory that is registered with CUDA (HostRegistration)");
    }
  }
  Result<std::shared_ptr<const DeviceGeometry>> geometry = geometries_.of(layout);
  if (!geometry) return std::unexpected(geometry.error());
  parts.geometry = std::move(*geometry);
  parts.engine = engine_of(request);
  parts.values.assign(request.values.begin(), request.values.end());
  parts.slices = cut_slices(
      parts.values.size(), strips, request.direction,
      limits(parts.engine, layout, request.direction, parts.geometry->numbers_per_value()));
  std::size_t slice = 0;
  for (std::size_t range = 0; range < strips.size(); ++range) {
    while (slice < parts.slices.size() && parts.slices[slice].range == range) ++slice;
    parts.range_ends.push_back(slice);
  }
  parts.brief = is_brief(parts);
  if (parts.brief) {
    parts.sums_per_value = static_cast<std::uint32_t>(layout.value_len() / kChecksumChunkBytes);
  }
  if (Result<void> filled = fill_lists(request, parts); !filled) {
    return std::unexpected(filled.error());
  }
  if (Result<void> taken = take_events(request, parts); !taken) {
    return std::unexpected(taken.error());
  }
  return parts;
}

Result<void> Copier::take_events(const CopyRequest& request, CudaJobParts& parts) {
  parts.events = events_;
  for (std::size_t i = 0; i < parts.range_ends.size(); ++i) {
    Result<Event> event = events_->take();
    if (!event) return std::unexpected(event.error());
    parts.range_events.push_back(std::move(*event));
  }
  if (request.stream == nullptr) return {};
  Result<Event> start = events_->take();
  if (!start) return std::unexpected(start.error());
  parts.start = std::move(*start);
  const cudaError_t error =
      cudaEventRecord(parts.start.get(), static_cast<cudaStream_t>(request.stream));
  if (error == cudaSuccess) return {};
  Error failure = cuda_failure(error, "cudaEventRecord").error();
  if (error == cudaErrorInvalidResourceHandle) {
    failure.code = ErrorCode::kInvalidArgument;
    failure.message += "; the stream must be one of device " + std::to_string(options_.device) +
                       ", which holds the layout's memory";
  }
  return std::unexpected(std::move(failure));
}

// Page numbers value after value (the request has them pool after pool), addresses, room for sums.
Result<void> Copier::fill_lists(const CopyRequest& request, CudaJobParts& parts) {
  const std::size_t values = parts.values.size();
  const std::size_t per_value = parts.geometry->numbers_per_value();
  std::size_t sums = 0;
  for (const Slice& slice : parts.slices) {
    parts.sums_at.push_back(sums);
    sums += std::size_t{slice.count} * parts.sums_per_value;
  }
  const bool addresses = parts.engine == EngineKind::kDirect && !parts.brief;
  const std::size_t words = sums + (addresses ? values : 0);
  Result<PinnedPool::Block> block =
      pool_->take(words * sizeof(std::uint64_t) + values * per_value * sizeof(std::uint32_t));
  if (!block) return std::unexpected(block.error());
  std::byte* at = block->data();
  parts.sums = reinterpret_cast<std::uint64_t*>(at);
  at += sums * sizeof(std::uint64_t);
  if (addresses) {
    parts.addresses = reinterpret_cast<std::byte**>(at);
    std::ranges::copy(parts.values, parts.addresses);
    at += values * sizeof(std::byte*);
  }
  parts.numbers = reinterpret_cast<std::uint32_t*>(at);
  parts.lists = std::move(*block);
  std::size_t pool_first = 0;
  for (std::size_t pool = 0; pool < request.layout->pools().size(); ++pool) {
    const std::size_t pages = request.layout->pools()[pool].pages_per_value;
    const std::int64_t* from = request.pages[pool].data();
    for (std::size_t value = 0; value < values; ++value) {
      std::uint32_t* const to = parts.numbers + value * per_value + pool_first;
      for (std::size_t i = 0; i < pages; ++i) to[i] = static_cast<std::uint32_t>(*from++);
    }
    pool_first += pages;
  }
  return {};
}

void Copier::look_after_jobs() {
  // The pauses below are of microseconds; the kernel would stretch them to 50.
  (void)prctl(PR_SET_TIMERSLACK, 1'000, 0, 0, 0);
  (void)cudaSetDevice(options_.device);
  std::vector<std::shared_ptr<CudaJob>> done;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return ending_ || jobs_ > 0; });
      if (jobs_ == 0) return;
    }
    done.clear();
    const std::uint64_t pause = std::min(backups_->service(done), restores_->service(done));
    if (done.empty()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
      continue;
    }
    for (const std::shared_ptr<CudaJob>& job : done) job->announce();
    const std::lock_guard lock(mutex_);
    jobs_ -= done.size();
  }
}

CudaCopier::Stats Copier::stats() const {
  const CudaLane::Counts backups = backups_->counts(), restores = restores_->counts();
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.slices = backups.slices + restores.slices;
  stats.copy_calls = backups.copy_calls + restores.copy_calls;
  stats.bytes = backups.bytes + restores.bytes;
  stats.submit_seconds = backups.submit_seconds + restores.submit_seconds;
  return stats;
}

Result<void> check_options(const CudaCopierOptions& options) {
  if (options.engine == EngineKind::kHost) {
    return fail(ErrorCode::kInvalidArgument, "engine 'host' is none of a GPU (make_host_copier)");
  }
  if (options.slots < 2 || options.slots > 64 || options.blocks < 1 ||
      options.blocks > kMostMoveBlocks || options.staging_bytes / options.slots < kLeastSlot ||
      options.window_bytes == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "GPU engine: slots 2 to 64 of at least 64 KiB, blocks 1 to " +
                    std::to_string(kMostMoveBlocks) + ", a window of at least 1 byte");
  }
  return check_device(options.device);
}

}  // namespace

Result<std::unique_ptr<CudaCopier>> make_cuda_copier(const CudaCopierOptions& options) {
  if (Result<void> right = check_options(options); !right) return std::unexpected(right.error());
  auto copier = std::make_unique<Copier>(options);
  if (Result<void> made = copier->make_lanes(); !made) return std::unexpected(made.error());
  return copier;
}

}  // namespace orlop::gpu
