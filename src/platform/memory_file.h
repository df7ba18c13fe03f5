// SPDX-License-Identifier: Apache-2.0
// Memory shared by descriptor (memfd): value area, control area, channels.
//
// Guarantees:
//  - sealed SHRINK|GROW|SEAL from creation: nobody who holds a descriptor can resize it (a shrink
//    would SIGBUS everybody who maps it) or add a write seal (which would stop the next server);
//  - reads as zero until written; memory is used only by pages that were touched;
//  - independent of the size of /dev/shm.
// It lives as long as some process holds a descriptor or a mapping of it.
// Thread: none; the calls themselves are system calls and may be made from any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "orlop/error.h"
#include "platform/file_descriptor.h"

namespace orlop {

enum class HugePages {
  kOff,
  // Reserved huge pages (MFD_HUGETLB, 2 MiB) when enough are free for the whole file and
  // the size is a multiple of theirs; else an ordinary file, for which Mapping::advise_huge may or
  // may not achieve something. What was achieved is shown by huge_bytes_of (mapping.h), only.
  kTry,
};

// Linux huge page size used here, x86-64 and arm64 with 4 KiB pages.
inline constexpr std::uint64_t kHugePageBytes = 2 * 1024 * 1024;

struct MemoryFileOptions {
  std::string name;         // shown in /proc as "/memfd:NAME (deleted)"; at most 249 bytes
  std::uint64_t bytes = 0;  // a multiple of 4096, not 0
  HugePages huge = HugePages::kOff;
  // Permission bits of the inode. 0444 for areas that others may only read: a descriptor opened
  // O_RDONLY then cannot be reopened for writing by other users (root and the owner can).
  mode_t mode = 0600;
};

class MemoryFile {
 public:
  MemoryFile() = default;

  // Errors: kInvalidArgument (size, name), kSystem.
  static Result<MemoryFile> create(const MemoryFileOptions& options);
  // Takes a descriptor received from another process. Errors: kCorrupt when it is not a memory file
  // with the three seals or not exactly expected_bytes (0 = any size).
  static Result<MemoryFile> adopt(FileDescriptor descriptor, std::uint64_t expected_bytes);

  int fd() const { return descriptor_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  // True when made of reserved huge pages: offsets of punch_hole must then be multiples of 2 MiB.
  bool reserved_huge() const { return reserved_huge_; }
  const FileDescriptor& descriptor() const { return descriptor_; }
  explicit operator bool() const { return static_cast<bool>(descriptor_); }

  // A new open file of the same memory that can only be read (mapping it writable is EACCES).
  // Requires /proc.
  Result<FileDescriptor> reopen_read_only() const;

  // Gives the pages of [offset, offset + bytes) back to the system; they read as zero afterwards,
  // in all processes. Both multiples of the page size. Errors: kInvalidArgument, kSystem.
  Result<void> punch_hole(std::uint64_t offset, std::uint64_t bytes);

  // Bytes of memory that the file takes now, in all processes together.
  Result<std::uint64_t> resident_bytes() const;

 private:
  FileDescriptor descriptor_;
  std::uint64_t bytes_ = 0;
  bool reserved_huge_ = false;
};

}  // namespace orlop
