// SPDX-License-Identifier: Apache-2.0
// What no engine's test can ask for: the rest is in conformance/jobs_suite.cpp.
#include "gpu/copy_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>

namespace orlop::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A count that a caller got wrong, or that wrapped: nothing of the list is read.
TEST(CopyRequest, Of_more_values_than_engines_count_is_refused_by_number) {
  KvLayout layout;
  layout.parts.push_back({.base = 4096, .pages = 1, .page_stride = 64, .row_bytes = 64});
  const auto compiled = CompiledLayout::compile(layout, 64);
  ASSERT_TRUE(compiled.has_value());
  std::byte* const nothing = nullptr;
  for (const std::size_t count :
       {kMostValuesOfCopy + 1, std::size_t{1} << 32, (std::size_t{1} << 32) + 1,
        std::numeric_limits<std::size_t>::max() / sizeof(std::byte*)}) {
    const auto checked =
        check_request({.layout = &*compiled, .values = std::span(&nothing, count)});
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code, ErrorCode::kLimit);
    EXPECT_THAT(checked.error().message, AllOf(HasSubstr(std::to_string(count)),
                                               HasSubstr("2147483648"), HasSubstr("split it")));
  }
}

}  // namespace
}  // namespace orlop::gpu
