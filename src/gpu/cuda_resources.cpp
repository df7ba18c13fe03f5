// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda_resources.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/units.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
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
  if (pool_ != nullptr) pool_->give_back(std::move(memory_), size_class_);
}

Result<PinnedPool::Block> PinnedPool::take(std::size_t bytes) {
  unsigned size_class = 0;
  while (size_class < kClasses && bytes_of(size_class) < bytes) ++size_class;
  if (size_class == kClasses) {
    return fail(ErrorCode::kLimit, "copy job: lists of " + format_bytes(bytes) +
                                       " do not fit; copy fewer values at once");
  }
  Result<PinnedMemory> kept = take_kept(size_class);
  if (!kept) return std::unexpected(std::move(kept.error()));
  Block block;  // from here on it is counted, and gives back even if it gets no memory
  block.pool_ = shared_from_this();
  block.size_class_ = size_class;
  block.memory_ = std::move(*kept);
  if (block) return block;
  Result<PinnedMemory> made = make_(bytes_of(size_class));  // takes long: without the lock
  if (!made) return std::unexpected(std::move(made.error()));
  block.memory_ = std::move(*made);
  return block;
}

Result<PinnedMemory> PinnedPool::take_kept(unsigned size_class) {
  const std::size_t size = bytes_of(size_class);
  const std::lock_guard lock(mutex_);
  if (bytes_in_use_ + size > kMostBytes) {
    return fail(ErrorCode::kLimit, "copy job: " + format_bytes(bytes_in_use_) +
                                       " of pinned lists are in use; wait for jobs to end");
  }
  SizeClass& of = classes_[size_class];
  PinnedMemory memory;
  if (of.kept.empty()) {
    if (of.kept.capacity() <= of.in_use) of.kept.reserve(2 * (of.in_use + 1));
  } else {
    memory = std::move(of.kept.back());
    of.kept.pop_back();
    bytes_kept_ -= size;
  }
  ++of.in_use;
  bytes_in_use_ += size;
  return memory;
}

void PinnedPool::give_back(PinnedMemory memory, unsigned size_class) noexcept {
  const std::size_t size = bytes_of(size_class);
  const std::lock_guard lock(mutex_);
  SizeClass& of = classes_[size_class];
  --of.in_use;
  bytes_in_use_ -= size;
  if (memory == nullptr || bytes_kept_ + size > kMostKeptBytes) return;  // it goes after the lock
  of.kept.push_back(std::move(memory));
  bytes_kept_ += size;
}

std::size_t PinnedPool::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return bytes_in_use_;
}

std::size_t PinnedPool::bytes_kept() const {
  const std::lock_guard lock(mutex_);
  return bytes_kept_;
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

void EventPool::give_back(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMostKept) free_.push_back(std::move(event));
}

}  // namespace orlop::gpu
