// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_registration.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "base/units.h"
#include "gpu/cuda_call.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

// Registered chunks of one mapping; unregisters them.
class Registered final : public HostRegistration {
 public:
  explicit Registered(std::span<std::byte> memory) : memory_(memory) {}
  ~Registered() override;

  Result<void> add_all(const Progress& progress);
  void remove_all();
  // Chunks begin at the mapping's begin.
  std::uint64_t chunk_bytes(std::uint64_t offset) const {
    return std::min<std::uint64_t>(kChunkBytes, memory_.size() - offset);
  }
  std::uint64_t run_at(const void* address) const override {
    const std::uint64_t offset = address_of(address) - address_of(memory_.data());
    if (offset >= memory_.size()) return 0;
    const std::uint64_t chunk = offset / kChunkBytes * kChunkBytes;
    return chunk + chunk_bytes(chunk) - offset;
  }
  double seconds() const override { return seconds_; }

 private:
  std::span<std::byte> memory_;
  std::uint64_t done_ = 0;
  double seconds_ = 0;
};

// All registrations of the process.
struct Registry {
  struct Entry {
    std::span<std::byte> memory;
    std::weak_ptr<Registered> owner;  // expired: its last owner has gone, it will erase the entry
  };
  std::mutex mutex;
  std::condition_variable erased;
  std::vector<Entry> entries;
  std::shared_ptr<const RegisteredChunks> chunks =
      std::make_shared<const RegisteredChunks>(std::vector<RegisteredChunks::Chunk>());

  void renew_chunks() {
    std::vector<RegisteredChunks::Chunk> found;
    for (const Entry& entry : entries) {
      const std::uint64_t begin = address_of(entry.memory.data());
      const std::uint64_t end = begin + entry.memory.size();
      for (std::uint64_t at = begin; at < end; at += HostRegistration::kChunkBytes) {
        found.push_back({at, std::min(end, at + HostRegistration::kChunkBytes)});
      }
    }
    std::ranges::sort(found, {}, &RegisteredChunks::Chunk::begin);
    chunks = std::make_shared<const RegisteredChunks>(std::move(found));
  }
};

Registry& registry() {
  // Never destroyed: registrations may be given back while the process ends.
  static Registry* const only = new Registry;
  return *only;
}

bool same(std::span<std::byte> a, std::span<std::byte> b) {
  return a.data() == b.data() && a.size() == b.size();
}

void Registered::remove_all() {
  for (std::uint64_t at = 0; at < done_; at += kChunkBytes) {
    (void)cudaHostUnregister(memory_.data() + at);
  }
  (void)cudaGetLastError();
  done_ = 0;
}

Registered::~Registered() {
  if (done_ == 0) return;  // was never listed
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  remove_all();
  std::erase_if(all.entries,
                [&](const Registry::Entry& entry) { return same(entry.memory, memory_); });
  all.renew_chunks();
  all.erased.notify_all();
}

Result<void> Registered::add_all(const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  while (done_ < memory_.size()) {
    const std::uint64_t bytes = chunk_bytes(done_);
    const cudaError_t error = cudaHostRegister(memory_.data() + done_, bytes,
                                               cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
      Error failure = cuda_failure(error, "cudaHostRegister").error();
      rlimit limit{};
      (void)getrlimit(RLIMIT_MEMLOCK, &limit);
      const std::string memlock =
          limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
      failure.code = ErrorCode::kNoMemory;
      failure.message += ": " + format_bytes(done_) + " of " + format_bytes(memory_.size()) +
                         " of value memory were registered; the memlock limit is " + memlock +
                         ". Raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity), or use "
                         "a smaller segment";
      return std::unexpected(std::move(failure));
    }
    done_ += bytes;
    if (progress) progress(done_, memory_.size());
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {};
}

}  // namespace

std::uint64_t RegisteredChunks::run_at(const void* address) const {
  const std::uint64_t at = address_of(address);
  const auto after = std::ranges::upper_bound(chunks_, at, {}, &Chunk::begin);
  if (after == chunks_.begin()) return 0;
  const Chunk& chunk = *std::prev(after);
  return at < chunk.end ? chunk.end - at : 0;
}

bool RegisteredChunks::covers(const void* address, std::uint64_t bytes) const {
  const auto* at = static_cast<const std::byte*>(address);
  while (bytes > 0) {
    const std::uint64_t run = std::min(bytes, run_at(at));
    if (run == 0) return false;
    at += run;
    bytes -= run;
  }
  return true;
}

std::shared_ptr<const RegisteredChunks> registered_chunks() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.chunks;
}

Result<std::shared_ptr<HostRegistration>> HostRegistration::register_memory(
    std::span<std::byte> memory, int device, const Progress& progress) {
  if (memory.empty() || address_of(memory.data()) % kPage != 0 || memory.size() % kPage != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "value memory to register begins and ends at pages of 4 KiB");
  }
  int devices = 0;
  ORLOP_CUDA(cudaGetDeviceCount, &devices);
  if (device < 0 || device >= devices) {
    return fail(ErrorCode::kInvalidArgument, "device " + std::to_string(device) + " of " +
                                                 std::to_string(devices) +
                                                 "; devices are numbered from 0");
  }
  const DeviceScope scope(device);
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  for (auto entry = all.entries.begin(); entry != all.entries.end();) {
    if (!same(entry->memory, memory)) {
      ++entry;
      continue;
    }
    if (std::shared_ptr<Registered> live = entry->owner.lock()) return live;
    all.erased.wait(lock);  // its last owner is just giving it back
    entry = all.entries.begin();
  }
  auto added = std::make_shared<Registered>(memory);
  if (const Result<void> done = added->add_all(progress); !done) {
    added->remove_all();
    return std::unexpected(done.error());
  }
  all.entries.push_back({memory, added});
  all.renew_chunks();
  return added;
}

}  // namespace orlop::gpu
