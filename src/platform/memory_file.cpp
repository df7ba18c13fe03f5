// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/bytes.h"
#include "platform/memory_files_text.h"
#include "platform/small_file.h"
#include "platform/system_error.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; from include/uapi/linux/memfd.h
#endif

namespace orlop {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr long kHugetlbMagic = 0x958458f6;  // HUGETLBFS_MAGIC, include/uapi/linux/magic.h
constexpr std::size_t kMaxNameBytes = 249;  // memfd_create(2)

FileDescriptor open_memfd(const std::string& name, unsigned flags) {
  flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Not executable: the default of the kernels that know the flag is to warn (or to refuse,
  // vm.memfd_noexec) when it is not given.
  int fd = ::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name.c_str(), flags);
  return FileDescriptor(fd);
}

// memfd_create and ftruncate succeed without a single free huge page; mmap is what reserves them,
// and the reservation then stays with the file. Anything missing here: no huge file.
std::optional<FileDescriptor> try_reserved_huge(const MemoryFileOptions& options) {
  if (options.bytes % kHugePageBytes != 0) return std::nullopt;
  auto meminfo = read_text_file("/proc/meminfo");
  if (!meminfo) return std::nullopt;
  const auto free_pages = labelled_value(*meminfo, "HugePages_Free");
  const auto page_bytes = labelled_value(*meminfo, "Hugepagesize");
  if (page_bytes != kHugePageBytes || !free_pages || *free_pages < options.bytes / kHugePageBytes) {
    return std::nullopt;
  }
  FileDescriptor file = open_memfd(options.name, MFD_HUGETLB | MFD_HUGE_2MB);
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(options.bytes)) != 0) {
    return std::nullopt;
  }
  void* trial = ::mmap(nullptr, options.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (trial == MAP_FAILED) return std::nullopt;
  ::munmap(trial, options.bytes);
  return file;
}

Result<void> check_options(const MemoryFileOptions& options) {
  if (options.bytes == 0 || options.bytes % kPageBytes != 0) {
    return fail(ErrorCode::kInvalidArgument, "memory file '" + options.name + "': size of " +
                                                 std::to_string(options.bytes) +
                                                 " bytes is not a positive multiple of 4096");
  }
  if (options.name.empty() || options.name.size() > kMaxNameBytes) {
    return fail(ErrorCode::kInvalidArgument,
                "memory file: name of " + std::to_string(options.name.size()) +
                    " bytes, allowed are 1 to " + std::to_string(kMaxNameBytes));
  }
  return {};
}

}  // namespace

Result<MemoryFile> MemoryFile::create(const MemoryFileOptions& options) {
  if (auto valid = check_options(options); !valid) return std::unexpected(valid.error());
  const std::string what = "(" + options.name + ")";
  MemoryFile made;
  made.bytes_ = options.bytes;
  if (options.huge == HugePages::kTry) {
    if (auto huge = try_reserved_huge(options)) {
      made.descriptor_ = std::move(*huge);
      made.reserved_huge_ = true;
    }
  }
  if (!made.descriptor_) {
    made.descriptor_ = open_memfd(options.name, 0);
    if (!made.descriptor_) return system_failure("memfd_create" + what, errno);
    if (::ftruncate(made.fd(), static_cast<off_t>(options.bytes)) != 0) {
      return system_failure("ftruncate" + what, errno);
    }
  }
  if (::fchmod(made.fd(), options.mode) != 0) return system_failure("fchmod" + what, errno);
  if (::fcntl(made.fd(), F_ADD_SEALS, kSeals) != 0) {
    return system_failure("fcntl(F_ADD_SEALS)" + what, errno);
  }
  return made;
}

Result<MemoryFile> MemoryFile::adopt(FileDescriptor descriptor, std::uint64_t expected_bytes) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  // Other seals (F_SEAL_EXEC of newer kernels) do no harm; a write seal does.
  if (seals < 0 || (seals & kSeals) != kSeals || (seals & F_SEAL_WRITE) != 0) {
    return fail(ErrorCode::kCorrupt,
                "the descriptor received is not a memory file sealed against resizing; close the "
                "connection");
  }
  struct stat info{};
  if (::fstat(descriptor.get(), &info) != 0) return system_failure("fstat(memory file)", errno);
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes == 0 || (expected_bytes != 0 && bytes != expected_bytes)) {
    return fail(ErrorCode::kCorrupt, "the memory file received has " + std::to_string(bytes) +
                                         " bytes, expected " + std::to_string(expected_bytes));
  }
  struct statfs file_system{};
  if (::fstatfs(descriptor.get(), &file_system) != 0) {
    return system_failure("fstatfs(memory file)", errno);
  }
  MemoryFile adopted;
  adopted.descriptor_ = std::move(descriptor);
  adopted.bytes_ = bytes;
  adopted.reserved_huge_ = file_system.f_type == kHugetlbMagic;
  return adopted;
}

Result<FileDescriptor> MemoryFile::reopen_read_only() const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd());
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return system_failure("open(" + path + ", O_RDONLY)", errno,
                          errno == ENOENT ? "mount /proc" : "");
  }
  return file;
}

Result<void> MemoryFile::punch_hole(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t page = reserved_huge_ ? kHugePageBytes : kPageBytes;
  if (offset % page != 0 || bytes % page != 0 || offset > bytes_ || bytes > bytes_ - offset) {
    return fail(ErrorCode::kInvalidArgument,
                "punch_hole: [" + std::to_string(offset) + ", +" + std::to_string(bytes) +
                    ") is not made of whole pages of " + std::to_string(page) +
                    " bytes inside the file of " + std::to_string(bytes_) + " bytes");
  }
  if (bytes == 0) return {};
  int rc = 0;
  do {
    rc = ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return system_failure("fallocate(FALLOC_FL_PUNCH_HOLE)", errno);
  return {};
}

Result<std::uint64_t> MemoryFile::resident_bytes() const {
  struct stat info{};
  if (::fstat(fd(), &info) != 0) return system_failure("fstat(memory file)", errno);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;  // stat(2): units of 512 bytes
}

}  // namespace orlop
