// SPDX-License-Identifier: Apache-2.0
#include "cli/page_bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace orlop::cli {
namespace {

TEST(PageBytes, Filled_page_gives_the_writer_back) {
  for (const std::size_t bytes : {std::size_t{32}, std::size_t{33}, std::size_t{4096}}) {
    std::vector<std::byte> page(bytes);
    fill_page(page, {7, 9}, 3);
    EXPECT_EQ(check_page(page, {7, 9}), 3u) << bytes;
  }
}

TEST(PageBytes, Any_changed_byte_but_the_writers_is_found) {
  std::vector<std::byte> page(133);
  fill_page(page, {1, 2}, 0);
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (i >= 16 && i < 20) continue;  // the writer's id: any value is legal
    page[i] ^= std::byte{0x40};
    EXPECT_FALSE(check_page(page, {1, 2}).has_value()) << "byte " << i;
    page[i] ^= std::byte{0x40};
  }
  EXPECT_TRUE(check_page(page, {1, 2}).has_value());
}

TEST(PageBytes, Page_of_another_key_is_found) {
  std::vector<std::byte> page(4096);
  fill_page(page, {1, 2}, 0);
  EXPECT_FALSE(check_page(page, {1, 3}).has_value());
  EXPECT_FALSE(check_page(page, {2, 2}).has_value());
  EXPECT_FALSE(check_page(page, {2, 1}).has_value());
}

TEST(PageBytes, Different_keys_differ_in_every_word) {
  std::vector<std::byte> a(4096), b(4096);
  fill_page(a, {10, 0}, 0);
  fill_page(b, {11, 0}, 0);
  for (std::size_t at = kPageHeaderBytes; at + 8 <= a.size(); at += 8) {
    EXPECT_NE(std::memcmp(&a[at], &b[at], 8), 0) << at;
  }
}

TEST(PageBytes, Same_key_gives_the_same_bytes_whoever_writes) {
  std::vector<std::byte> a(4096), b(4096);
  fill_page(a, {10, 1}, 1);
  fill_page(b, {10, 1}, 2);
  EXPECT_EQ(std::memcmp(&a[kPageHeaderBytes], &b[kPageHeaderBytes], 4096 - kPageHeaderBytes), 0);
}

}  // namespace
}  // namespace orlop::cli
