// SPDX-License-Identifier: Apache-2.0
#include "copy/bench_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace orlop {
namespace {

Error system_error(const char* call) {
  return {ErrorCode::kSystem, std::string(call) + ": " + std::strerror(errno)};
}

}  // namespace

Result<BenchMemory> BenchMemory::create(std::size_t bytes, bool shared) {
  int fd = -1;
  if (shared) {
    fd = ::memfd_create("orlop-copy-bench", MFD_CLOEXEC);
    if (fd < 0) return std::unexpected(system_error("memfd_create"));
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
      const Error error = system_error("ftruncate");
      ::close(fd);
      return std::unexpected(error);
    }
  }
  const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  const Error error = mapped == MAP_FAILED ? system_error("mmap") : Error{};
  if (fd >= 0) ::close(fd);  // the mapping keeps the memory
  if (mapped == MAP_FAILED) return std::unexpected(error);
  BenchMemory memory(static_cast<std::byte*>(mapped), bytes);
  memory.fill();
  return memory;
}

BenchMemory::BenchMemory(BenchMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

BenchMemory::~BenchMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void BenchMemory::fill() {
  for (std::size_t i = 0; i + 8 <= bytes_; i += 8) {
    const std::uint64_t word = i * 0x9e3779b97f4a7c15u;
    std::memcpy(data_ + i, &word, 8);
  }
}

}  // namespace orlop
