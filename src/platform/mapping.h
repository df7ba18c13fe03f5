// SPDX-License-Identifier: Apache-2.0
// A shared mapping of a descriptor, and the proof of what kind of pages it got.
//
// Guarantees: MAP_SHARED, MADV_DONTFORK (a forked child has a hole there, not the memory), unmapped
// when the object ends; the address never changes when the object is moved.
// Thread: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "orlop/error.h"

namespace orlop {

enum class Access { kReadOnly, kReadWrite };

// Address space without memory, so that several mappings can be placed next to each other or grow
// in place. Must outlive the mappings placed in it.
class AddressReservation {
 public:
  AddressReservation() = default;
  // bytes: a multiple of 4096. alignment: a power of two >= 4096 (2 MiB lets huge pages work).
  static Result<AddressReservation> make(std::uint64_t bytes, std::uint64_t alignment);
  AddressReservation(AddressReservation&& other) noexcept { swap(other); }
  AddressReservation& operator=(AddressReservation&& other) noexcept {
    AddressReservation taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~AddressReservation();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

 private:
  void swap(AddressReservation& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

struct MapRequest {
  int fd = -1;
  std::uint64_t offset = 0;  // multiple of 4096 (2 MiB for reserved huge pages)
  std::uint64_t bytes = 0;   // likewise, not 0; must lie inside the file
  Access access = Access::kReadOnly;
  // Place it at this offset of a reservation (multiple of 4096); null: the kernel chooses a place,
  // aligned to 2 MiB when bytes >= 2 MiB.
  const AddressReservation* inside = nullptr;
  std::uint64_t inside_offset = 0;
};

class Mapping {
 public:
  Mapping() = default;
  // Errors: kInvalidArgument (range), kNoMemory (address space or reserved huge pages), kSystem.
  static Result<Mapping> map(const MapRequest& request);
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Mapping();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_, size_}; }
  bool writable() const { return writable_; }
  explicit operator bool() const { return data_ != nullptr; }

  // Asks for transparent huge pages (MADV_HUGEPAGE). Success proves nothing: on a machine with
  // shmem_enabled=never it returns 0 and gives none. Ask huge_bytes_of after the first touch.
  Result<void> advise_huge();
  // Asks for 4 KiB pages (MADV_NOHUGEPAGE): sparse areas must not become resident 2 MiB at a time.
  Result<void> advise_small();

 private:
  void swap(Mapping& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(in_reservation_, other.in_reservation_);
    std::swap(writable_, other.writable_);
  }
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  bool in_reservation_ = false;
  bool writable_ = false;
};

// Bytes of the mapping that are mapped by huge pages in this process at this moment, from
// /proc/self/smaps (ShmemPmdMapped, FilePmdMapped, AnonHugePages; reserved huge pages in whole).
// Only touched memory counts. Where the kernel has merged the mapping with a neighbour of the same
// file, the neighbour's huge pages may be counted, never more than the mapping's own size.
// Cost: milliseconds (the kernel walks all page tables of the process).
Result<std::uint64_t> huge_bytes_of(const Mapping& mapping);

}  // namespace orlop
