// SPDX-License-Identifier: Apache-2.0
#include "platform/container_signs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace orlop {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ContainerSigns : public ::testing::Test {
 protected:
  ContainerSigns() { std::filesystem::create_directories(root_ + "/proc/1"); }
  ~ContainerSigns() override { std::filesystem::remove_all(root_); }
  const std::string root_ = ::testing::TempDir() + "signs_" + std::to_string(::getpid());
};

TEST_F(ContainerSigns, A_plain_host_has_none) {
  std::ofstream(root_ + "/proc/1/cgroup") << "2:memory:/\n0::/init.scope\n";
  EXPECT_THAT(container_signs(root_), IsEmpty());
}

TEST_F(ContainerSigns, Marker_files_and_cgroup_names_are_signs) {
  std::ofstream(root_ + "/.dockerenv") << "";
  std::ofstream(root_ + "/proc/1/cgroup")
      << "3:cpu:/kubepods/burstable/pod1\n2:memory:/kubepods/burstable/pod1\n";
  EXPECT_THAT(container_signs(root_),
              ElementsAre("/.dockerenv", "/proc/1/cgroup: /kubepods/burstable/pod1"));
}

TEST(PidNamespace, Ours_is_shared_with_ourselves_and_unknown_for_nobody) {
  EXPECT_EQ(shares_pid_namespace(::getpid()), true);
  EXPECT_EQ(shares_pid_namespace(4194305), std::nullopt);  // above the largest pid
}

}  // namespace
}  // namespace orlop
