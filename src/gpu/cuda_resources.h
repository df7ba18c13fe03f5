// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: streams, events and memory of one device, given back when their owner goes.
//
// Guarantees: what make_ and take_ return belongs to the caller alone. Freeing memory may wait for
// the device, so pinned blocks and events of jobs go back to pools that live as long as the copier.
// Requires: the device is current (DeviceScope) in make_ and take_.
// Thread: the pools any; handles as their owner.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/device_scope.h"
#include "orlop/error.h"

namespace orlop::gpu {

// Gives back in the context that it was made in, whatever the thread's own device is.
template <auto kEnd>
class EndInContext {
 public:
  EndInContext() = default;
  explicit EndInContext(Context context) : context_(context) {}
  template <class Handle>
  void operator()(Handle* handle) const {
    const DeviceScope scope(context_);
    (void)kEnd(handle);
  }

 private:
  Context context_;
};
using Stream = std::unique_ptr<CUstream_st, EndInContext<cudaStreamDestroy>>;
using Event = std::unique_ptr<CUevent_st, EndInContext<cudaEventDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, EndInContext<cudaGraphDestroy>>;
// Launches that have yet to run do run.
using GraphExec = std::unique_ptr<CUgraphExec_st, EndInContext<cudaGraphExecDestroy>>;
using DeviceMemory = std::unique_ptr<std::byte, EndInContext<cudaFree>>;
using PinnedMemory = std::unique_ptr<std::byte, EndInContext<cudaFreeHost>>;

// An owner of what was made in the context that is current.
template <class Handle>
Handle in_this_context(typename Handle::pointer made) {
  return Handle(made, typename Handle::deleter_type(driver_contexts().current()));
}

// urgent: its kernels go before those of other streams that wait for a multiprocessor.
Result<Stream> make_stream(bool urgent);
Result<Event> make_event();                                  // without timing
Result<DeviceMemory> make_device_memory(std::size_t bytes);  // its contents anything
Result<PinnedMemory> make_pinned_memory(std::size_t bytes);  // mapped, zeroed

// Host memory that the device may read and write, in blocks of powers of two. What is given back
// is kept for the next, up to kMostKeptBytes; freeing the rest may wait for the device.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  using Make = std::function<Result<PinnedMemory>(std::size_t bytes)>;
  static constexpr std::size_t kLeastBlock = 16 * 1024;
  static constexpr std::size_t kMostBytes = std::size_t{2} << 30;  // in use
  // Far beyond what jobs of an engine take: lists of some million values.
  static constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;

  explicit PinnedPool(Make make = make_pinned_memory) : make_(std::move(make)) {}

  class Block {
   public:
    Block() = default;
    Block(Block&&) noexcept = default;
    Block& operator=(Block&& other) noexcept;
    ~Block();
    std::byte* data() const { return memory_.get(); }
    explicit operator bool() const { return memory_ != nullptr; }

   private:
    friend class PinnedPool;
    std::shared_ptr<PinnedPool> pool_;  // null: holds nothing
    PinnedMemory memory_;
    unsigned size_class_ = 0;
  };

  // At least so many bytes, their contents anything. kLimit: kMostBytes are in use, or asked for.
  Result<Block> take(std::size_t bytes);

  std::size_t bytes_in_use() const;
  std::size_t bytes_kept() const;

 private:
  static constexpr unsigned kClasses = 18;  // 16 KiB .. 2 GiB
  static constexpr std::size_t bytes_of(unsigned size_class) { return kLeastBlock << size_class; }
  // Counts a block as in use; one that is kept, or null. Makes room to keep it later.
  Result<PinnedMemory> take_kept(unsigned size_class);
  void give_back(PinnedMemory memory, unsigned size_class) noexcept;  // null: there never was one

  struct SizeClass {
    std::vector<PinnedMemory> kept;  // has room for every block that is in use or kept
    std::size_t in_use = 0;          // blocks
  };
  const Make make_;
  mutable std::mutex mutex_;  // what follows
  std::array<SizeClass, kClasses> classes_;
  std::size_t bytes_in_use_ = 0, bytes_kept_ = 0;
};

class EventPool {
 public:
  EventPool() { free_.reserve(kMostKept); }
  Result<Event> take();
  void give_back(Event event) noexcept;

 private:
  static constexpr std::size_t kMostKept = 256;
  std::mutex mutex_;
  std::vector<Event> free_;
};

}  // namespace orlop::gpu
