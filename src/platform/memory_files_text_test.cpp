// SPDX-License-Identifier: Apache-2.0
#include "platform/memory_files_text.h"

#include <gtest/gtest.h>

namespace orlop {
namespace {

using Folders = std::vector<std::string>;

TEST(MemoryFilesText, Labelled_values_with_and_without_unit) {
  const char* text = "MemTotal:       24684084 kB\nHugePages_Free:        3\nHugePages_Freed: 9\n";
  EXPECT_EQ(labelled_value(text, "MemTotal"), 24684084ull * 1024);
  EXPECT_EQ(labelled_value(text, "HugePages_Free"), 3u);
  EXPECT_EQ(labelled_value(text, "Total"), std::nullopt);
  EXPECT_EQ(labelled_value("MemTotal: lots kB\n", "MemTotal"), std::nullopt);
  EXPECT_EQ(labelled_value("MemTotal:", "MemTotal"), std::nullopt);
  EXPECT_EQ(labelled_value("MemTotal: 18446744073709551615 kB", "MemTotal"), std::nullopt);
}

TEST(MemoryFilesText, Stat_values_match_whole_names) {
  const char* text = "anon 5\ninactive_file 4096\ntotal_inactive_file 8192\n";
  EXPECT_EQ(stat_value(text, "inactive_file"), 4096u);
  EXPECT_EQ(stat_value(text, "total_inactive_file"), 8192u);
  EXPECT_EQ(stat_value(text, "file"), std::nullopt);
}

TEST(MemoryFilesText, No_limit_has_two_spellings) {
  EXPECT_EQ(cgroup_limit_value("67108864\n"), 67108864u);
  EXPECT_EQ(cgroup_limit_value("0\n"), 0u);
  EXPECT_EQ(cgroup_limit_value("max\n"), std::nullopt);
  EXPECT_EQ(cgroup_limit_value("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(cgroup_limit_value(""), std::nullopt);
}

TEST(MemoryFilesText, Memlock_is_the_soft_limit) {
  EXPECT_EQ(
      memlock_soft_limit("Limit                     Soft Limit\n"
                         "Max locked memory         8388608              9388608      bytes\n"),
      8388608u);
  EXPECT_EQ(
      memlock_soft_limit("Max locked memory         unlimited            unlimited    bytes\n"),
      std::nullopt);
}

TEST(MemoryFilesText, Hard_limit_of_open_files) {
  const std::string text =
      "Limit                     Soft Limit           Hard Limit           Units\n";
  EXPECT_EQ(open_files_hard_limit(text + "Max open files            1024   65536   files\n"),
            65'536u);
  EXPECT_EQ(open_files_hard_limit(text + "Max open files            1024   unlimited   files\n"),
            ~std::uint64_t{0});
  EXPECT_EQ(open_files_hard_limit(text), std::nullopt);
}

TEST(MemoryFilesText, Capability_bits) {
  const char* text = "Name:\tx\nCapEff:\t0000000000004001\n";
  EXPECT_TRUE(has_capability(text, 0));
  EXPECT_TRUE(has_capability(text, 14));
  EXPECT_FALSE(has_capability(text, 13));
  EXPECT_FALSE(has_capability(text, 64));
  EXPECT_FALSE(has_capability("", 14));
}

TEST(MemoryFilesText, Memberships_of_both_versions) {
  const auto all = parse_cgroup_memberships(
      "4:memory,cpu:/a/b:c\n9:name=systemd:/\n0::/user.slice\nnonsense\n1:x:relative\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[0].v2);
  EXPECT_EQ(all[0].controllers, (Folders{"memory", "cpu"}));
  EXPECT_EQ(all[0].path, "/a/b:c");
  EXPECT_TRUE(all[2].v2);
  EXPECT_EQ(all[2].path, "/user.slice");
}

TEST(MemoryFilesText, Mounts_of_both_versions) {
  const auto all = parse_cgroup_mounts(
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw,relatime shared:7 master:3 - cgroup cgroup "
      "rw,memory\n"
      "41 31 0:38 / /mnt/with\\040space rw - cgroup2 cgroup2 rw\n"
      "short line\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].v2);
  EXPECT_EQ(all[0].controllers, (Folders{"rw", "memory"}));
  EXPECT_EQ(all[0].mount_root, "/docker/1");
  EXPECT_TRUE(all[1].v2);
  EXPECT_EQ(all[1].mount_point, "/mnt/with space");
}

TEST(MemoryFilesText, Folders_go_from_the_own_cgroup_to_the_mount) {
  const CgroupMount whole{true, {}, "/", "/c"};
  EXPECT_EQ(cgroup_folders(whole, "/a/b"), (Folders{"/c/a/b", "/c/a", "/c"}));
  EXPECT_EQ(cgroup_folders(whole, "/"), (Folders{"/c"}));
  const CgroupMount part{true, {}, "/docker/1", "/c"};
  EXPECT_EQ(cgroup_folders(part, "/docker/1/x"), (Folders{"/c/x", "/c"}));
  EXPECT_EQ(cgroup_folders(part, "/docker/1"), (Folders{"/c"}));
  EXPECT_EQ(cgroup_folders(part, "/docker/10"), (Folders{"/c"}));
  EXPECT_EQ(cgroup_folders(part, "/"), (Folders{"/c"}));
  EXPECT_EQ(cgroup_folders(whole, "/../up"), (Folders{"/c"}));
}

}  // namespace
}  // namespace orlop
