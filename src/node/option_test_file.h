// SPDX-License-Identifier: Apache-2.0
// A configuration file for the length of a test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace orlop::node {

class OptionTestFile {
 public:
  explicit OptionTestFile(const std::string& text) : path_(unique_path()) {
    std::ofstream(path_) << text;
  }
  ~OptionTestFile() { std::filesystem::remove(path_); }
  OptionTestFile(const OptionTestFile&) = delete;
  OptionTestFile& operator=(const OptionTestFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string unique_path() {
    static int count = 0;
    return ::testing::TempDir() + "orlop_options_" + std::to_string(::getpid()) + "_" +
           std::to_string(count++) + ".toml";
  }
  std::string path_;
};

}  // namespace orlop::node
