// SPDX-License-Identifier: Apache-2.0
#include "platform/kernel_features.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace orlop {
namespace {

TEST(KernelFeatures, What_every_other_test_of_this_room_needs_works) {
  const KernelFeatures features = probe_kernel();
  EXPECT_NE(features.release.find('.'), std::string::npos) << features.release;
  for (const FeatureProbe* probe :
       {&features.memory_files, &features.wipe_on_fork, &features.dont_fork, &features.pidfd}) {
    EXPECT_TRUE(probe->works) << probe->why;
    EXPECT_EQ(probe->why, "");
  }
  for (const FeatureProbe* probe : {&features.peer_pidfd, &features.io_uring}) {
    EXPECT_EQ(probe->works, probe->why.empty()) << "a failure has a reason, and only a failure";
  }
}

TEST(KernelFeatures, Probes_leave_no_descriptors) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = open_files();
  (void)probe_kernel();
  EXPECT_EQ(open_files(), before);
}

TEST(KernelFeatures, Settings_are_read_from_their_files) {
  const std::string root = ::testing::TempDir() + "kernel_" + std::to_string(::getpid());
  std::filesystem::create_directories(root + "/proc/sys/kernel");
  std::filesystem::create_directories(root + "/sys/kernel/mm/transparent_hugepage");
  std::ofstream(root + "/proc/sys/kernel/io_uring_disabled") << "2\n";
  std::ofstream(root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled")
      << "always within_size [advise] never deny force\n";
  const KernelFeatures features = probe_kernel(root);
  EXPECT_EQ(features.io_uring_disabled, 2);
  EXPECT_EQ(features.shared_huge_pages, "advise");
  std::filesystem::remove_all(root);
  const KernelFeatures bare = probe_kernel(root);
  EXPECT_EQ(bare.io_uring_disabled, std::nullopt);
  EXPECT_EQ(bare.shared_huge_pages, "");
}

TEST(KernelFeatures, Chosen_word_is_the_one_in_brackets) {
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word("[never]"), "never");
  EXPECT_EQ(chosen_word("always never"), "");
  EXPECT_EQ(chosen_word("always [never"), "");
}

}  // namespace
}  // namespace orlop
