// SPDX-License-Identifier: Apache-2.0
#include "platform/first_touch.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"
#include "platform/memory_file.h"
#include "platform/test_process.h"

namespace orlop {
namespace {

struct Area {
  MemoryFile file;
  Mapping mapping;
  explicit Area(std::uint64_t bytes) {
    auto made = MemoryFile::create({.name = "orlop-touch", .bytes = bytes});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    file = std::move(*made);
    auto mapped = Mapping::map({.fd = file.fd(), .bytes = bytes, .access = Access::kReadWrite});
    EXPECT_TRUE(mapped.has_value()) << mapped.error().message;
    mapping = std::move(*mapped);
  }
};

class FirstTouch : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(PopulateAndFallback, FirstTouch, testing::Bool());

TEST_P(FirstTouch, Everything_becomes_resident_and_nothing_changes) {
  Area area(16 * kMiB + kPageBytes);  // the last chunk is a part
  area.mapping.data()[5 * kMiB + 3] = std::byte{77};
  auto report =
      first_touch(area.mapping,
                  {.threads = 3, .chunk_bytes = 2 * kMiB, .progress = {}, .populate = GetParam()});
  ORLOP_ASSERT_OK(report);
  EXPECT_EQ(report->bytes, area.mapping.size());
  EXPECT_EQ(report->threads, 3u);
  EXPECT_EQ(*area.file.resident_bytes(), area.mapping.size());
  EXPECT_EQ(area.mapping.data()[5 * kMiB + 3], std::byte{77});
  EXPECT_EQ(area.mapping.data()[5 * kMiB + 4], std::byte{0});
}

TEST_P(FirstTouch, Progress_grows_to_the_total_once) {
  Area area(16 * kMiB);
  std::vector<std::uint64_t> seen;
  auto report = first_touch(area.mapping, {.threads = 1,
                                           .chunk_bytes = 2 * kMiB,
                                           .progress =
                                               [&](std::uint64_t done, std::uint64_t total) {
                                                 EXPECT_EQ(total, 16 * kMiB);
                                                 seen.push_back(done);
                                                 return true;
                                               },
                                           .populate = GetParam()});
  ORLOP_ASSERT_OK(report);
  ASSERT_EQ(seen.size(), 8u);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], (i + 1) * 2 * kMiB);
}

TEST_P(FirstTouch, Progress_can_stop_it) {
  Area area(16 * kMiB);
  auto report = first_touch(area.mapping, {.threads = 1,
                                           .chunk_bytes = 2 * kMiB,
                                           .progress = [](auto, auto) { return false; },
                                           .populate = GetParam()});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kClosed);
  EXPECT_EQ(*area.file.resident_bytes(), 2 * kMiB);
}

TEST(FirstTouchErrors, Read_only_mapping_is_an_error_and_no_signal) {
  Area area(2 * kMiB);
  auto reader = Mapping::map({.fd = area.file.fd(), .bytes = 2 * kMiB});
  ORLOP_ASSERT_OK(reader);
  auto report = first_touch(*reader, {});
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
}

TEST(FirstTouchErrors, Chunk_that_is_no_multiple_is_refused) {
  Area area(2 * kMiB);
  EXPECT_EQ(first_touch(area.mapping, {.chunk_bytes = 0}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(first_touch(area.mapping, {.chunk_bytes = 4096}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(FirstTouchErrors, Empty_mapping_is_done_at_once) {
  auto report = first_touch(Mapping{}, {});
  ORLOP_ASSERT_OK(report);
  EXPECT_EQ(report->bytes, 0u);
}

}  // namespace
}  // namespace orlop
