// SPDX-License-Identifier: Apache-2.0
// For tests of this room: a forked child that ends with the test at the latest.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

namespace orlop {

class ForkedChild {
 public:
  // Runs body in a forked child; its return value is the exit code.
  template <class Body>
  explicit ForkedChild(Body body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  ForkedChild(ForkedChild&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ForkedChild& operator=(ForkedChild&&) = delete;
  ~ForkedChild() {
    if (pid_ > 0) kill_and_wait();
  }
  pid_t pid() const { return pid_; }
  void kill_and_wait() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  // Exit code, or 1000 + signal.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  // Somebody else has waited for it.
  void forget() { pid_ = -1; }

 private:
  pid_t pid_;
};

// Sleeps until killed: the parent's test decides.
inline int sleep_until_killed() {
  for (;;) ::pause();
}

// A folder of its own, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "orlop-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A value or a failed test that shows the error.
#define ORLOP_ASSERT_OK(result) ASSERT_TRUE((result).has_value()) << (result).error().message
#define ORLOP_EXPECT_OK(result) EXPECT_TRUE((result).has_value()) << (result).error().message

}  // namespace orlop
