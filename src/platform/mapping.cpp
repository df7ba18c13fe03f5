// SPDX-License-Identifier: Apache-2.0
#include "platform/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "platform/memory_file.h"
#include "platform/smaps.h"
#include "platform/system_error.h"

namespace orlop {
namespace {

constexpr int kReserveFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Result<void> check_request(const MapRequest& request) {
  struct stat info{};
  if (::fstat(request.fd, &info) != 0) return system_failure("fstat(fd to map)", errno);
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  const bool whole_pages =
      request.bytes != 0 && request.bytes % kPageBytes == 0 && request.offset % kPageBytes == 0;
  // Beyond the end of the file every access is a SIGBUS.
  if (!whole_pages || request.offset > file_bytes || request.bytes > file_bytes - request.offset) {
    return fail(ErrorCode::kInvalidArgument,
                "map: [" + std::to_string(request.offset) + ", +" + std::to_string(request.bytes) +
                    ") is not made of whole pages inside the file of " +
                    std::to_string(file_bytes) + " bytes");
  }
  if (request.inside == nullptr) return {};
  const std::uint64_t room = request.inside->size();
  if (request.inside_offset % kPageBytes != 0 || request.inside_offset > room ||
      request.bytes > room - request.inside_offset) {
    return fail(ErrorCode::kInvalidArgument,
                "map: " + std::to_string(request.bytes) + " bytes at offset " +
                    std::to_string(request.inside_offset) + " do not fit the reservation of " +
                    std::to_string(room) + " bytes");
  }
  return {};
}

// Reserves bytes + alignment, then gives the ends back. MAP_FAILED with errno on failure.
void* reserve_aligned(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t slack = alignment > kPageBytes ? alignment : 0;
  void* raw = ::mmap(nullptr, bytes + slack, PROT_NONE, kReserveFlags, -1, 0);
  if (raw == MAP_FAILED || slack == 0) return raw;
  const auto begin = reinterpret_cast<std::uint64_t>(raw);
  const std::uint64_t aligned = align_up(begin, alignment);
  if (aligned > begin) ::munmap(raw, aligned - begin);
  const std::uint64_t tail = begin + slack - aligned;
  if (tail > 0) ::munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

Result<AddressReservation> AddressReservation::make(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes == 0 || bytes % kPageBytes != 0 || alignment < kPageBytes ||
      !std::has_single_bit(alignment)) {
    return fail(ErrorCode::kInvalidArgument, "reservation: " + std::to_string(bytes) +
                                                 " bytes aligned to " + std::to_string(alignment) +
                                                 " are not whole pages");
  }
  void* place = reserve_aligned(bytes, alignment);
  if (place == MAP_FAILED) {
    return system_failure("mmap(reserve " + std::to_string(bytes) + " bytes)", errno,
                          "raise the limit of address space (ulimit -v)", ErrorCode::kNoMemory);
  }
  AddressReservation made;
  made.data_ = static_cast<std::byte*>(place);
  made.size_ = bytes;
  return made;
}

AddressReservation::~AddressReservation() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Mapping> Mapping::map(const MapRequest& request) {
  if (auto valid = check_request(request); !valid) return std::unexpected(valid.error());
  const int protection = request.access == Access::kReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  const std::string call = "mmap(" + std::to_string(request.bytes) + " bytes, " +
                           (request.access == Access::kReadWrite ? "rw" : "ro") + ")";
  Mapping made;
  made.size_ = request.bytes;
  made.in_reservation_ = request.inside != nullptr;
  made.writable_ = request.access == Access::kReadWrite;
  void* place = nullptr;
  if (made.in_reservation_) {
    place = request.inside->data() + request.inside_offset;
  } else {
    place = reserve_aligned(request.bytes,
                            request.bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes);
    if (place == MAP_FAILED) return system_failure(call, errno, {}, ErrorCode::kNoMemory);
  }
  // From here on ~Mapping gives the place back.
  made.data_ = static_cast<std::byte*>(place);
  if (::mmap(place, request.bytes, protection, MAP_SHARED | MAP_FIXED, request.fd,
             static_cast<off_t>(request.offset)) == MAP_FAILED) {
    return system_failure(call, errno, {},
                          errno == ENOMEM ? ErrorCode::kNoMemory : ErrorCode::kSystem);
  }
  if (::madvise(place, request.bytes, MADV_DONTFORK) != 0) {
    return system_failure("madvise(MADV_DONTFORK)", errno);
  }
  return made;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  if (!in_reservation_) {
    ::munmap(data_, size_);
    return;
  }
  // The place goes back to the reservation in one step, so that nobody else can be put there.
  void* again = ::mmap(data_, size_, PROT_NONE, kReserveFlags | MAP_FIXED, -1, 0);
  CHECK(again != MAP_FAILED, "a mapping could not be taken out of its reservation");
}

Result<void> Mapping::advise_huge() {
  if (::madvise(data_, size_, MADV_HUGEPAGE) == 0) return {};
  return system_failure("madvise(MADV_HUGEPAGE)", errno,
                        "this kernel or file has no transparent huge pages; go on without");
}

Result<void> Mapping::advise_small() {
  // EINVAL: the kernel has no transparent huge pages, so they are off.
  if (::madvise(data_, size_, MADV_NOHUGEPAGE) == 0 || errno == EINVAL) return {};
  return system_failure("madvise(MADV_NOHUGEPAGE)", errno);
}

Result<std::uint64_t> huge_bytes_of(const Mapping& mapping) {
  auto entries = read_smaps(0);
  if (!entries) return std::unexpected(entries.error());
  const auto start = reinterpret_cast<std::uint64_t>(mapping.data());
  const std::uint64_t end = start + mapping.size();
  std::uint64_t huge = 0;
  for (const SmapsEntry& entry : *entries) {
    const std::uint64_t low = std::max(start, entry.start);
    const std::uint64_t high = std::min(end, entry.end);
    if (low >= high) continue;
    const SmapsTotals& t = entry.totals;
    const std::uint64_t found = t.shmem_pmd_mapped + t.file_pmd_mapped + t.anonymous_huge +
                                t.shared_hugetlb + t.private_hugetlb;
    huge += std::min(found, high - low);
  }
  return huge;
}

}  // namespace orlop
