// SPDX-License-Identifier: Apache-2.0
#include "gpu/bench/gpu_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::gpu {
namespace {

using testing::HasSubstr;

TEST(GpuBench, A_group_that_is_not_there_is_refused_by_name) {
  const auto report = run_gpu_bench({.only = {"gemm", "thoughput"}});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(report.error().message, HasSubstr("'thoughput'"));
  EXPECT_THAT(report.error().message, HasSubstr("graph, throughput, latency"));
}

}  // namespace
}  // namespace orlop::gpu
