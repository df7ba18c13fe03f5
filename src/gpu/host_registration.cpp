// SPDX-License-Identifier: Apache-2.0
#include "gpu/host_registration.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "gpu/cuda_call.h"
#include "gpu/device_scope.h"
#include "gpu/registration_failure.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

std::optional<std::uint64_t> memlock_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

// Registered chunks of one mapping; unregisters them.
class Registered final : public HostRegistration {
 public:
  Registered(std::span<std::byte> memory, int device) : memory_(memory), device_(device) {}
  ~Registered() override;

  Result<void> add_all(const Progress& progress);
  void remove_all();
  // Chunks begin at the mapping's begin.
  std::uint64_t chunk_bytes(std::uint64_t offset) const {
    return std::min<std::uint64_t>(kChunkBytes, memory_.size() - offset);
  }
  double seconds() const override { return seconds_; }

 private:
  std::span<std::byte> memory_;
  const int device_;
  std::uint64_t done_ = 0;
  double seconds_ = 0;
};

// All registrations of the process. Its mutex is never held during a call of CUDA or of a caller's
// progress: those take seconds, and every copy asks for the chunks.
struct Registry {
  enum class State : std::uint8_t { kComing, kUsable, kGoing };
  struct Entry {
    std::span<std::byte> memory;
    State state;
    std::weak_ptr<Registered> owner;
  };
  std::mutex mutex;
  std::condition_variable changed;  // an entry became usable or was erased
  std::vector<Entry> entries;
  std::shared_ptr<const RegisteredChunks> chunks =
      std::make_shared<const RegisteredChunks>(std::vector<RegisteredChunks::Chunk>());

  void renew_chunks() {
    std::vector<RegisteredChunks::Chunk> found;
    for (const Entry& entry : entries) {
      if (entry.state != State::kUsable) continue;
      const std::uint64_t begin = address_of(entry.memory.data());
      const std::uint64_t end = begin + entry.memory.size();
      for (std::uint64_t at = begin; at < end; at += HostRegistration::kChunkBytes) {
        found.push_back({at, std::min(end, at + HostRegistration::kChunkBytes)});
      }
    }
    std::ranges::sort(found, {}, &RegisteredChunks::Chunk::begin);
    chunks = std::make_shared<const RegisteredChunks>(std::move(found));
  }
  std::vector<Entry>::iterator find(std::span<std::byte> memory) {
    return std::ranges::find_if(entries, [&](const Entry& entry) {
      return entry.memory.data() == memory.data() && entry.memory.size() == memory.size();
    });
  }
  void set_state(std::span<std::byte> memory, State state) {
    const std::lock_guard lock(mutex);
    find(memory)->state = state;
    renew_chunks();
    changed.notify_all();
  }
  void erase(std::span<std::byte> memory) {
    const std::lock_guard lock(mutex);
    // There is none if memory for the entry was lacking.
    if (const auto entry = find(memory); entry != entries.end()) entries.erase(entry);
    changed.notify_all();
  }
};

Registry& registry() {
  // Never destroyed: registrations may be given back while the process ends.
  static Registry* const only = new Registry;
  return *only;
}

void Registered::remove_all() {
  if (done_ == 0) return;
  const DeviceScope scope(device_);
  for (std::uint64_t at = 0; at < done_; at += kChunkBytes) {
    (void)cudaHostUnregister(memory_.data() + at);
  }
  (void)cudaGetLastError();
  done_ = 0;
}

Registered::~Registered() {
  if (done_ > 0) registry().set_state(memory_, Registry::State::kGoing);
  remove_all();
  registry().erase(memory_);
}

Result<void> Registered::add_all(const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  while (done_ < memory_.size()) {
    const std::uint64_t bytes = chunk_bytes(done_);
    const cudaError_t error = cudaHostRegister(memory_.data() + done_, bytes,
                                               cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess) {
      return std::unexpected(registration_failure({.error = error,
                                                   .done = done_,
                                                   .all = memory_.size(),
                                                   .chunk = bytes,
                                                   .memlock = memlock_limit()}));
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
  if (const Result<void> there = check_device(device); !there)
    return std::unexpected(there.error());
  const DeviceScope scope(device);
  if (!scope.entered()) return std::unexpected(scope.entered().error());
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  // Coming or going: on another thread, which says when.
  for (auto entry = all.find(memory); entry != all.entries.end(); entry = all.find(memory)) {
    if (entry->state == Registry::State::kUsable) {
      if (std::shared_ptr<Registered> live = entry->owner.lock()) return live;
    }
    all.changed.wait(lock);
  }
  auto added = std::make_shared<Registered>(memory, device);
  all.entries.push_back({memory, Registry::State::kComing, added});
  lock.unlock();
  // After an error the owner's end takes back what was done.
  if (const Result<void> done = added->add_all(progress); !done) {
    return std::unexpected(done.error());
  }
  all.set_state(memory, Registry::State::kUsable);
  return added;
}

}  // namespace orlop::gpu
