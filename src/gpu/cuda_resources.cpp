// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_resources.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/units.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

template <class Handle>
Handle in_this_context(typename Handle::pointer made) {
  return Handle(made, typename Handle::deleter_type(driver_contexts().current()));
}

}  // namespace

Result<Stream> make_stream(bool urgent) {
  int least = 0, greatest = 0;
  ORLOP_CUDA(cudaDeviceGetStreamPriorityRange, &least, &greatest);
  cudaStream_t stream = nullptr;
  ORLOP_CUDA(cudaStreamCreateWithPriority, &stream, cudaStreamNonBlocking,
             urgent ? greatest : least);
  return in_this_context<Stream>(stream);
}

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  ORLOP_CUDA(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
  return in_this_context<Event>(event);
}

Result<DeviceMemory> make_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  ORLOP_CUDA(cudaMalloc, &memory, bytes);
  return in_this_context<DeviceMemory>(static_cast<std::byte*>(memory));
}

Result<PinnedMemory> make_pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  ORLOP_CUDA(cudaHostAlloc, &memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
  std::memset(memory, 0, bytes);
  return in_this_context<PinnedMemory>(static_cast<std::byte*>(memory));
}

PinnedPool::Block& PinnedPool::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    Block before(std::move(*this));
    pool_ = std::move(other.pool_);
    memory_ = std::move(other.memory_);
    size_class_ = other.size_class_;
  }
  return *this;
}

PinnedPool::Block::~Block() {
  if (memory_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  pool_->free_[size_class_].push_back(std::move(memory_));
}

Result<PinnedPool::Block> PinnedPool::take(std::size_t bytes) {
  unsigned size_class = 0;
  while (size_class < kClasses && (kLeastBlock << size_class) < bytes) ++size_class;
  if (size_class == kClasses) {
    return fail(ErrorCode::kLimit, "copy job: lists of " + format_bytes(bytes) +
                                       " do not fit; copy fewer values at once");
  }
  Block block;
  block.pool_ = shared_from_this();
  block.size_class_ = size_class;
  const std::lock_guard lock(mutex_);
  std::vector<PinnedMemory>& free = free_[size_class];
  if (!free.empty()) {
    block.memory_ = std::move(free.back());
    free.pop_back();
    return block;
  }
  const std::size_t size = kLeastBlock << size_class;
  if (bytes_ + size > kMostBytes) {
    return fail(ErrorCode::kLimit, "copy job: " + format_bytes(bytes_) +
                                       " of pinned lists are in use; wait for jobs to end");
  }
  Result<PinnedMemory> memory = make_pinned_memory(size);
  if (!memory) return std::unexpected(memory.error());
  bytes_ += size;
  free.reserve(free.size() + 1);
  block.memory_ = std::move(*memory);
  return block;
}

Result<Event> EventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Event event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return make_event();
}

void EventPool::give_back(Event event) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMostKept) free_.push_back(std::move(event));
}

}  // namespace orlop::gpu
