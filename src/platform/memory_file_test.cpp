// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "platform/mapping.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

MemoryFile make(std::uint64_t bytes, mode_t mode = 0600) {
  auto file = MemoryFile::create({.name = "orlop-test", .bytes = bytes, .mode = mode});
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return std::move(*file);
}

Mapping map_all(const MemoryFile& file) {
  auto mapping =
      Mapping::map({.fd = file.fd(), .bytes = file.bytes(), .access = Access::kReadWrite});
  EXPECT_TRUE(mapping.has_value()) << mapping.error().message;
  return std::move(*mapping);
}

TEST(MemoryFile, Nobody_can_resize_or_seal_it) {
  const MemoryFile file = make(64 * kKiB);
  EXPECT_EQ(::ftruncate(file.fd(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file.fd(), 128 * kKiB), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(file.fd(), F_GETFD), FD_CLOEXEC);
}

TEST(MemoryFile, Write_after_the_end_does_not_grow_it) {
  const MemoryFile file = make(kPageBytes);
  EXPECT_EQ(::pwrite(file.fd(), "x", 1, kPageBytes), -1);
}

TEST(MemoryFile, Read_only_reopen_cannot_be_mapped_for_writing) {
  const MemoryFile file = make(kPageBytes, 0444);
  struct stat info{};
  ASSERT_EQ(::fstat(file.fd(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0444u);
  auto reader = file.reopen_read_only();
  ORLOP_ASSERT_OK(reader);
  EXPECT_EQ(::fcntl(reader->get(), F_GETFD), FD_CLOEXEC);
  auto refused =
      Mapping::map({.fd = reader->get(), .bytes = kPageBytes, .access = Access::kReadWrite});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("EACCES"), std::string::npos) << refused.error().message;

  const Mapping writer = map_all(file);
  auto view = Mapping::map({.fd = reader->get(), .bytes = kPageBytes});
  ORLOP_ASSERT_OK(view);
  writer.data()[17] = std::byte{42};
  EXPECT_EQ(view->data()[17], std::byte{42});
  EXPECT_EQ(::mprotect(view->data(), kPageBytes, PROT_READ | PROT_WRITE), -1);
}

TEST(MemoryFile, Mode_0444_keeps_other_users_from_writing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const MemoryFile file = make(kPageBytes, 0444);
  auto reader = file.reopen_read_only();
  ORLOP_ASSERT_OK(reader);
  ForkedChild child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
    const std::string path = "/proc/self/fd/" + std::to_string(reader->get());
    if (::open(path.c_str(), O_RDWR) >= 0) return 3;
    return ::fchmod(reader->get(), 0666) == 0 ? 4 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(MemoryFile, Punched_hole_reads_zero_and_gives_memory_back) {
  MemoryFile file = make(kMiB);
  const Mapping mapping = map_all(file);
  std::memset(mapping.data(), 7, mapping.size());
  auto resident = file.resident_bytes();
  ORLOP_ASSERT_OK(resident);
  EXPECT_EQ(*resident, kMiB);
  ORLOP_ASSERT_OK(file.punch_hole(256 * kKiB, 512 * kKiB));
  EXPECT_EQ(*file.resident_bytes(), 512 * kKiB);
  EXPECT_EQ(mapping.data()[256 * kKiB - 1], std::byte{7});
  EXPECT_EQ(mapping.data()[256 * kKiB], std::byte{0});
  EXPECT_EQ(mapping.data()[768 * kKiB - 1], std::byte{0});
  EXPECT_EQ(mapping.data()[768 * kKiB], std::byte{7});
}

TEST(MemoryFile, Punch_outside_or_in_parts_of_pages_is_refused) {
  MemoryFile file = make(kMiB);
  EXPECT_EQ(file.punch_hole(1, kPageBytes).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.punch_hole(0, 100).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.punch_hole(kMiB, kPageBytes).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(file.punch_hole(kPageBytes, ~std::uint64_t{4095}).error().code,
            ErrorCode::kInvalidArgument);
  ORLOP_EXPECT_OK(file.punch_hole(kMiB, 0));
}

TEST(MemoryFile, Bad_options_are_refused_with_numbers) {
  auto size = MemoryFile::create({.name = "a", .bytes = 4097});
  ASSERT_FALSE(size.has_value());
  EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(size.error().message.find("4097"), std::string::npos);
  EXPECT_FALSE(MemoryFile::create({.name = "a", .bytes = 0}).has_value());
  EXPECT_FALSE(MemoryFile::create({.name = "", .bytes = 4096}).has_value());
  EXPECT_FALSE(MemoryFile::create({.name = std::string(250, 'n'), .bytes = 4096}).has_value());
}

TEST(MemoryFile, Adopt_takes_a_sealed_file_of_the_right_size_only) {
  const MemoryFile file = make(64 * kKiB);
  auto adopted = MemoryFile::adopt(std::move(*file.descriptor().duplicate()), 64 * kKiB);
  ORLOP_ASSERT_OK(adopted);
  EXPECT_EQ(adopted->bytes(), 64 * kKiB);
  EXPECT_FALSE(adopted->reserved_huge());
  auto size = MemoryFile::adopt(std::move(*file.descriptor().duplicate()), 128 * kKiB);
  EXPECT_EQ(size.error().code, ErrorCode::kCorrupt);

  FileDescriptor unsealed(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(MemoryFile::adopt(std::move(unsealed), 0).error().code, ErrorCode::kCorrupt);
  FileDescriptor device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(MemoryFile::adopt(std::move(device), 0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(MemoryFile::adopt(FileDescriptor(), 0).error().code, ErrorCode::kCorrupt);
}

TEST(MemoryFile, Huge_try_works_with_and_without_huge_pages) {
  auto file = MemoryFile::create(
      {.name = "orlop-huge", .bytes = 2 * kHugePageBytes, .huge = HugePages::kTry});
  ORLOP_ASSERT_OK(file);
  const Mapping mapping = map_all(*file);
  std::memset(mapping.data(), 1, mapping.size());
  auto huge = huge_bytes_of(mapping);
  ORLOP_ASSERT_OK(huge);
  if (file->reserved_huge()) {
    EXPECT_EQ(*huge, mapping.size());
  }
  EXPECT_LE(*huge, mapping.size());
  EXPECT_EQ(*file->resident_bytes(), mapping.size());
}

}  // namespace
}  // namespace orlop
