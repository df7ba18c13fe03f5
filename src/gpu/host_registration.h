// SPDX-License-Identifier: Apache-2.0
// Value memory made known to CUDA (pinned), once per process and mapping.
//
// Registered in chunks, so that progress can be told and one call does not hold the address space
// for seconds. Copies must not cross a chunk's border (CUDA refuses a copy that spans two
// registrations): whoever copies cuts at RegisteredChunks::run_at().
// Guarantees: the memory stays registered until the last owner of the returned handle is gone;
// asking again for the same mapping costs nothing. All or nothing: an error unregisters what was
// done and says how far it came, why, and the remedy (registration_failure.h). Registering and
// giving back, which take seconds, hold up nobody but who asks for the same memory. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "orlop/error.h"

namespace orlop::gpu {

class HostRegistration {
 public:
  // A multiple of every slab size, so that few values lie across a border.
  static constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 30;

  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)>;
  // memory: page aligned, outlives the handle. device: its context is made when there is none.
  // progress: on this thread, after every chunk; must not ask for the same memory.
  static Result<std::shared_ptr<HostRegistration>> register_memory(std::span<std::byte> memory,
                                                                   int device,
                                                                   const Progress& progress = {});
  virtual ~HostRegistration() = default;
  virtual double seconds() const = 0;  // that registering took
};

// The chunks of all registrations at one moment. Thread: any; immutable.
class RegisteredChunks {
 public:
  struct Chunk {
    std::uint64_t begin = 0, end = 0;  // addresses
  };
  explicit RegisteredChunks(std::vector<Chunk> sorted) : chunks_(std::move(sorted)) {}
  // Bytes from `address` on that one copy may take; 0: not registered.
  std::uint64_t run_at(const void* address) const;
  bool covers(const void* address, std::uint64_t bytes) const;

 private:
  std::vector<Chunk> chunks_;
};
// Of this process, now.
std::shared_ptr<const RegisteredChunks> registered_chunks();

}  // namespace orlop::gpu
