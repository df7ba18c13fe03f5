// SPDX-License-Identifier: Apache-2.0
#include "client/value_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "client/pages_mapped.h"
#include "platform/mapping.h"

namespace orlop::client {
namespace {

constexpr std::uint64_t kChunk = ValuePages::kChunkBytes;

// Memory that is resident already, mapped anew: what a client that attaches has.
class ValuePagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("value_pages_test", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kBytes)), 0);
    auto node = Mapping::map({fd_, 0, kBytes, Access::kReadWrite});
    ASSERT_TRUE(node);
    std::memset(node->data(), 0x5a, kBytes);
    auto mapped = Mapping::map({fd_, 0, kBytes, Access::kReadWrite});
    ASSERT_TRUE(mapped);
    mapping_ = std::move(*mapped);
  }
  void TearDown() override { ::close(fd_); }

  // A tail of 3 pages behind 10 chunks.
  static constexpr std::uint64_t kBytes = 10 * kChunk + 3 * 4096;
  std::span<std::byte> part(std::uint64_t offset, std::uint64_t bytes) {
    return mapping_.span().subspan(offset, bytes);
  }
  int fd_ = -1;
  Mapping mapping_;
};

TEST_F(ValuePagesTest, Each_chunk_is_asked_for_once) {
  ValuePages pages(mapping_.span());
  pages.will_write(part(kChunk + 4096, 4096));
  EXPECT_EQ(pages.populated(), 1u);
  pages.will_write(part(kChunk, kChunk));
  EXPECT_EQ(pages.populated(), 1u);
  pages.will_write(part(0, 3 * kChunk));  // 0 and 2 are new
  EXPECT_EQ(pages.populated(), 3u);
  pages.will_write(part(2 * kChunk + 100, kChunk));  // ends in 3
  EXPECT_EQ(pages.populated(), 4u);
  pages.will_write({});
  EXPECT_EQ(pages.populated(), 4u);
}

TEST_F(ValuePagesTest, The_tail_is_no_whole_chunk) {
  ValuePages pages(mapping_.span());
  pages.will_write(part(9 * kChunk, kChunk + 3 * 4096));
  EXPECT_EQ(pages.populated(), 2u);
  pages.will_write(part(10 * kChunk, 3 * 4096));
  EXPECT_EQ(pages.populated(), 2u);
}

TEST_F(ValuePagesTest, What_is_asked_for_is_mapped_and_keeps_its_bytes) {
  ValuePages pages(mapping_.span());
  ASSERT_EQ(testing::pages_mapped(mapping_.span()), 0u);
  pages.will_write(part(kChunk, 8 * kChunk));
  if (pages.populated() == 0) GTEST_SKIP() << "a kernel before 5.14";
  EXPECT_EQ(testing::pages_mapped(part(kChunk, 8 * kChunk)), 8 * kChunk / 4096);
  EXPECT_EQ(testing::pages_mapped(mapping_.span()), 8 * kChunk / 4096);
  for (std::size_t at = 0; at < kBytes; ++at) ASSERT_EQ(mapping_.data()[at], std::byte{0x5a}) << at;
}

TEST_F(ValuePagesTest, More_than_one_step_is_mapped_in_whole) {
  constexpr std::uint64_t kLarge = 2 * ValuePages::kStepBytes + kChunk;
  ASSERT_EQ(::ftruncate(fd_, static_cast<off_t>(kLarge)), 0);
  auto mapped = Mapping::map({fd_, 0, kLarge, Access::kReadWrite});
  ASSERT_TRUE(mapped);
  ValuePages pages(mapped->span());
  pages.will_write(mapped->span());
  if (pages.populated() == 0) GTEST_SKIP() << "a kernel before 5.14";
  EXPECT_EQ(pages.populated(), kLarge / kChunk);
  EXPECT_EQ(testing::pages_mapped(mapped->span()), kLarge / 4096);
}

// What an old kernel answers (EINVAL), another does for memory that must not be written.
TEST_F(ValuePagesTest, A_kernel_that_refuses_is_not_asked_again) {
  auto read_only = Mapping::map({fd_, 0, kBytes, Access::kReadOnly});
  ASSERT_TRUE(read_only);
  ValuePages pages(read_only->span());
  pages.will_write(read_only->span());
  EXPECT_EQ(pages.populated(), 0u);
  pages.will_write(read_only->span().first(4096));
  EXPECT_EQ(pages.populated(), 0u);
  EXPECT_EQ(testing::pages_mapped(read_only->span()), 0u);
}

TEST_F(ValuePagesTest, A_part_from_elsewhere_is_a_defect) {
  ValuePages pages(mapping_.span().first(kChunk));
  EXPECT_DEATH(pages.will_write(part(kChunk, 4096)), "part of the value area");
}

}  // namespace
}  // namespace orlop::client
