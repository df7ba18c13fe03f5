// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_gpu.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace orlop::cli {
namespace {

class BenchGpu : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string program() const { return std::string(folder_) + "/gpu_bench"; }
  void make_program(const std::string& text) {
    std::ofstream(program()) << text;
    ASSERT_EQ(::chmod(program().c_str(), 0700), 0);
  }

  char folder_[32] = "/tmp/orlop-bench-gpu-XXXXXX";
};

TEST_F(BenchGpu, Absent_program_is_told_and_the_cpu_engine_measured) {
  // A set smaller than a value: the measuring itself is told to be impossible, quickly.
  const GpuBenchArguments arguments{.working_set = 4096};
  EXPECT_EXIT(
      ::_exit(to_int(run_gpu_bench(arguments, folder_))), ::testing::ExitedWithCode(2),
      "there is no .*/gpu_bench .builds with a CUDA toolkit have it.; these are the bars of "
      "the engine for CPU memory");
}

TEST_F(BenchGpu, Program_gets_the_arguments_and_gives_the_exit_status) {
  make_program("#!/bin/sh\necho \"asked: $*\" >&2\nexit 7\n");
  const GpuBenchArguments arguments{.json = true, .program = {"--only", "a b"}};
  EXPECT_EXIT(::_exit(to_int(become_gpu_bench(program(), arguments))), ::testing::ExitedWithCode(7),
              "asked: --json --only a b");
}

TEST_F(BenchGpu, Program_that_cannot_be_started_is_told) {
  make_program("neither a script nor an ELF file");
  EXPECT_EXIT(::_exit(to_int(become_gpu_bench(program(), {}))), ::testing::ExitedWithCode(5),
              "cannot be started: Exec format error");
}

}  // namespace
}  // namespace orlop::cli
