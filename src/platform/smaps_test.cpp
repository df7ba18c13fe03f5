// SPDX-License-Identifier: Apache-2.0
#include "platform/smaps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "base/bytes.h"
#include "platform/mapping.h"
#include "platform/memory_file.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

constexpr const char* kText =
    "7f0000000000-7f0000200000 rw-s 00000000 00:01 1234                       /memfd:orlop value "
    "(deleted)\n"
    "Size:               2048 kB\n"
    "KernelPageSize:        4 kB\n"
    "Rss:                1024 kB\n"
    "Pss:                 512 kB\n"
    "Shared_Dirty:       1000 kB\n"
    "Private_Dirty:        24 kB\n"
    "ShmemPmdMapped:     2048 kB\n"
    "THPeligible:           0\n"
    "VmFlags: rd wr sh mr mw me ms dc sd \n"
    "7f0000200000-7f0000201000 rw-p 00000000 00:00 0 \n"
    "Size:                  4 kB\n"
    "Rss:                   4 kB\n"
    "Private_Dirty:         4 kB\n"
    "VmFlags: rd wr mr mw me ac wf\n"
    "7f0000300000-7f0000301000 rw-p 00000000 00:00 0 \n"
    "Rss:                   4 kB\n";

TEST(Smaps, Text_becomes_entries) {
  const auto entries = parse_smaps(kText);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].start, 0x7f0000000000u);
  EXPECT_EQ(entries[0].end, 0x7f0000200000u);
  EXPECT_EQ(entries[0].permissions, "rw-s");
  EXPECT_EQ(entries[0].name, "/memfd:orlop value (deleted)");
  EXPECT_EQ(entries[0].kernel_page_size, 4096u);
  EXPECT_TRUE(entries[0].dont_fork);
  EXPECT_FALSE(entries[0].wipe_on_fork);
  EXPECT_EQ(entries[0].totals.rss, 1024 * kKiB);
  EXPECT_EQ(entries[0].totals.pss, 512 * kKiB);
  EXPECT_EQ(entries[0].totals.private_dirty, 24 * kKiB);
  EXPECT_EQ(entries[0].totals.shmem_pmd_mapped, 2 * kMiB);
  EXPECT_EQ(entries[1].name, "[anonymous]");
  EXPECT_TRUE(entries[1].wipe_on_fork);
}

TEST(Smaps, Sums_by_name_and_in_all) {
  const auto entries = parse_smaps(kText);
  const auto sums = sum_by_name(entries);
  EXPECT_EQ(sums.at("[anonymous]").rss, 8 * kKiB);
  EXPECT_EQ(sums.at("/memfd:orlop value (deleted)").shared_dirty, 1000 * kKiB);
  EXPECT_EQ(sum_of(entries).rss, 1032 * kKiB);
}

TEST(Smaps, Nonsense_is_skipped) {
  EXPECT_TRUE(parse_smaps("").empty());
  EXPECT_TRUE(parse_smaps("Rss: 4 kB\nhello\n-\n5-4 x\n").empty());
  EXPECT_EQ(parse_smaps("1000-2000 rw-p\nRss: x kB\nRss:\n:\n").size(), 1u);
}

TEST(Smaps, Own_memory_file_is_found_with_its_numbers) {
  auto file = MemoryFile::create({.name = "orlop-smaps-test", .bytes = kMiB});
  ORLOP_ASSERT_OK(file);
  auto mapping = Mapping::map({.fd = file->fd(), .bytes = kMiB, .access = Access::kReadWrite});
  ORLOP_ASSERT_OK(mapping);
  std::memset(mapping->data(), 1, 64 * kKiB);
  auto entries = read_smaps(0);
  ORLOP_ASSERT_OK(entries);
  const auto sums = sum_by_name(*entries);
  const auto found = sums.find("/memfd:orlop-smaps-test (deleted)");
  ASSERT_NE(found, sums.end());
  EXPECT_EQ(found->second.size, kMiB);
  EXPECT_GE(found->second.rss, 64 * kKiB);
}

TEST(Smaps, Other_process_is_read_and_a_dead_one_is_closed) {
  ForkedChild child(sleep_until_killed);
  const pid_t pid = child.pid();
  auto entries = read_smaps(pid);
  ORLOP_ASSERT_OK(entries);
  EXPECT_GT(sum_of(*entries).size, 0u);
  child.kill_and_wait();
  auto dead = read_smaps(pid);
  ASSERT_FALSE(dead.has_value());
  EXPECT_EQ(dead.error().code, ErrorCode::kClosed);
}

}  // namespace
}  // namespace orlop
