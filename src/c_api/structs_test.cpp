// SPDX-License-Identifier: Apache-2.0
#include "c_api/structs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace orlop::c_api {
namespace {

// One struct through three headers: its first form, the library's, and a later one.
struct First {
  std::size_t struct_size;
  std::uint64_t a;
};
struct Known {
  std::size_t struct_size;
  std::uint64_t a, b;
};
struct Later {
  std::size_t struct_size;
  std::uint64_t a, b, c;
};

template <class Given>
Result<Known> read(const Given& given) {
  return read_struct<Known, sizeof(First)>("options", reinterpret_cast<const Known*>(&given));
}

TEST(Structs, Fields_that_an_older_header_lacks_are_zero) {
  const First given{sizeof(First), 7};
  const auto known = read(given);
  ASSERT_TRUE(known.has_value()) << known.error().message;
  EXPECT_EQ(known->a, 7U);
  EXPECT_EQ(known->b, 0U);
}

TEST(Structs, Newer_struct_is_taken_while_its_tail_is_zero) {
  EXPECT_EQ(read(Later{sizeof(Later), 7, 8, 0})->b, 8U);
  const auto refused = read(Later{sizeof(Later), 7, 8, 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "options: byte 24 of 32 is set, this library knows 24; leave newer fields zero or use "
            "the library of that header");
}

TEST(Structs, Sizes_that_no_header_has_are_refused) {
  for (const std::size_t size : {std::size_t{0}, sizeof(First) - 1, kMaxStructBytes + 1}) {
    const auto refused = read(First{size, 7});
    ASSERT_FALSE(refused.has_value()) << size;
    EXPECT_EQ(refused.error().message,
              "options.struct_size: is " + std::to_string(size) +
                  ", allowed are 16 to 4096; set it to sizeof of the struct");
  }
}

TEST(Structs, Result_is_written_as_far_as_the_caller_has_room) {
  struct {
    First first{sizeof(First), 0};
    std::uint64_t not_ours = 99;
  } older;
  write_struct(reinterpret_cast<Known*>(&older.first), Known{0, 7, 8});
  EXPECT_EQ(older.first.struct_size, sizeof(First));
  EXPECT_EQ(older.first.a, 7U);
  EXPECT_EQ(older.not_ours, 99U);
  Later later{sizeof(Later), 1, 1, 1};
  write_struct(reinterpret_cast<Known*>(&later), Known{0, 7, 8});
  EXPECT_EQ(later.struct_size, sizeof(Later));
  EXPECT_EQ(later.b, 8U);
  EXPECT_EQ(later.c, 0U);
}

}  // namespace
}  // namespace orlop::c_api
