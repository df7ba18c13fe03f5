// SPDX-License-Identifier: Apache-2.0
#include "platform/runtime_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "platform/test_process.h"

namespace orlop {
namespace {

TEST(RuntimeDir, First_source_that_says_something_decides) {
  const auto path = [](RuntimeEnvironment environment) {
    return default_socket_place(environment).socket_path;
  };
  EXPECT_EQ(path({"/x/y.sock", "/run/user/7", 7}), "/x/y.sock");
  EXPECT_EQ(path({"/x/y.sock", {}, 0}), "/x/y.sock");
  EXPECT_EQ(path({"", "/run/user/0", 0}), "/run/orlop/orlop.sock");
  EXPECT_EQ(path({{}, "/run/user/7", 7}), "/run/user/7/orlop/orlop.sock");
  EXPECT_EQ(path({{}, "", 7}), "/tmp/orlop-7/orlop.sock");
  EXPECT_EQ(path({{}, {}, 7}), "/tmp/orlop-7/orlop.sock");
}

TEST(RuntimeDir, Folder_in_tmp_must_be_ours) {
  EXPECT_TRUE(default_socket_place({{}, {}, 7}).folder_must_be_ours);
  EXPECT_EQ(default_socket_place({{}, {}, 7}).folder_mode, 0700u);
  EXPECT_EQ(default_socket_place({{}, {}, 0}).folder_mode, 0755u);
}

TEST(RuntimeDir, Explicit_path_leaves_the_folder_to_the_operator) {
  EXPECT_EQ(explicit_socket_place("/a/b/c").folder, "/a/b");
  EXPECT_EQ(explicit_socket_place("/c").folder, "/");
  EXPECT_EQ(explicit_socket_place("c").folder, ".");
  TestFolder root;
  const SocketPlace place = explicit_socket_place(root / "missing/s");
  EXPECT_FALSE(prepare_socket_folder(place).has_value());
  EXPECT_FALSE(std::filesystem::exists(root / "missing"));
  EXPECT_EQ(check_socket_folder(place).error().code, ErrorCode::kNoNode);
  ORLOP_EXPECT_OK(prepare_socket_folder(explicit_socket_place(root / "s")));
}

SocketPlace private_place(const TestFolder& root) {
  return {root / "orlop/orlop.sock", root / "orlop", 0700, true};
}

TEST(RuntimeDir, Private_folder_is_made_once_and_accepted_again) {
  TestFolder root;
  const SocketPlace place = private_place(root);
  EXPECT_EQ(check_socket_folder(place).error().code, ErrorCode::kNoNode);
  ORLOP_ASSERT_OK(prepare_socket_folder(place));
  struct stat info{};
  ASSERT_EQ(::stat(place.folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ORLOP_EXPECT_OK(prepare_socket_folder(place));
  ORLOP_EXPECT_OK(check_socket_folder(place));
}

TEST(RuntimeDir, Folder_open_to_others_is_refused) {
  TestFolder root;
  const SocketPlace place = private_place(root);
  ASSERT_EQ(::mkdir(place.folder.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(place.folder.c_str(), 0770), 0);
  EXPECT_EQ(prepare_socket_folder(place).error().code, ErrorCode::kRefused);
}

TEST(RuntimeDir, Symbolic_link_or_file_in_its_place_is_refused) {
  TestFolder root;
  const SocketPlace place = private_place(root);
  std::filesystem::create_directory_symlink("/", place.folder);
  EXPECT_EQ(prepare_socket_folder(place).error().code, ErrorCode::kRefused);
  EXPECT_EQ(check_socket_folder(place).error().code, ErrorCode::kRefused);
}

TEST(RuntimeDir, Folder_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  TestFolder root;
  const SocketPlace place = private_place(root);
  ORLOP_ASSERT_OK(prepare_socket_folder(place));
  ASSERT_EQ(::chown(place.folder.c_str(), 65534, 65534), 0);
  EXPECT_EQ(check_socket_folder(place).error().code, ErrorCode::kRefused);
}

TEST(RuntimeDir, Environment_of_this_process_is_read) {
  ForkedChild child([] {
    ::setenv("ORLOP_SOCKET", "/e/s", 1);
    ::setenv("XDG_RUNTIME_DIR", "", 1);
    const RuntimeEnvironment now = RuntimeEnvironment::current();
    return now.orlop_socket == "/e/s" && !now.xdg_runtime_dir && now.uid == ::geteuid() ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace orlop
