// SPDX-License-Identifier: Apache-2.0
// What of the copier can be seen without a device; with one, the conformance suite uses it.
#include "gpu/cuda_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace orlop::gpu {
namespace {

using testing::HasSubstr;

std::string refusal(const CudaCopierOptions& options) {
  const auto copier = make_cuda_copier(options);
  if (copier) return "accepted";
  EXPECT_EQ(copier.error().code, ErrorCode::kInvalidArgument);
  return copier.error().message;
}

TEST(CudaCopierOptions, Wrong_ones_are_refused_before_any_call) {
  EXPECT_THAT(refusal({.engine = EngineKind::kHost}), HasSubstr("'host'"));
  EXPECT_THAT(refusal({.slots = 1}), HasSubstr("slots 2 to 64"));
  EXPECT_THAT(refusal({.staging_bytes = 64 << 10}), HasSubstr("64 KiB"));
  EXPECT_THAT(refusal({.blocks = 0}), HasSubstr("blocks 1 to"));
  // Nothing would ever be submitted.
  EXPECT_THAT(refusal({.window_bytes = 0}), HasSubstr("window"));
}

}  // namespace
}  // namespace orlop::gpu
