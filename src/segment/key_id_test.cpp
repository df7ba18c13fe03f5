// SPDX-License-Identifier: Apache-2.0
#include "segment/key_id.h"

#include <gtest/gtest.h>

#include <string>

namespace orlop::segment {
namespace {

TEST(KeyHasher, Same_family_and_key_give_the_same_id) {
  const KeyHasher a(Digest{1, 2}), b(Digest{1, 2});
  EXPECT_EQ(a.hash("page", 4), b.hash("page", 4));
  EXPECT_NE(a.hash("page", 4), a.hash("pagf", 4));
}

TEST(KeyHasher, Other_family_gives_another_id) {
  const KeyHasher a(Digest{1, 2});
  for (const Digest& other : {Digest{1, 3}, Digest{2, 2}, Digest{2, 1}, Digest{0, 0}})
    EXPECT_NE(a.hash("page", 4), KeyHasher(other).hash("page", 4));
}

TEST(KeyHasher, Every_length_of_key_counts) {
  const KeyHasher hasher(digest_of("family"));
  const std::string zeros(4096, '\0');
  KeyId before = hasher.hash(zeros.data(), 1);
  for (const std::size_t bytes : {2U, 16U, 17U, 128U, 129U, 240U, 241U, 4096U}) {
    const KeyId id = hasher.hash(zeros.data(), bytes);
    EXPECT_NE(id, before);
    before = id;
  }
}

// Part of the ABI and, later, of the cluster's catalog: other builds of the library must agree.
TEST(KeyHasher, Golden_ids_stay) {
  const KeyHasher hasher(digest_of("golden family"));
  EXPECT_EQ(hasher.hash("0123456789abcdef0123456789abcdef", 32),
            (KeyId{0xfd705c6f333a93c9, 0x46c71ecea77d87a5}));
  EXPECT_EQ(hasher.hash("", 0), (KeyId{0xf830cb0504e8bc9e, 0x20b82c19e8a81662}));
}

TEST(DigestOf, Golden_digest_is_plain_XXH3_128) {
  EXPECT_EQ(digest_of(""), (Digest{0x6001c324468d497fULL, 0x99aa06d3014798d8ULL}));
}

}  // namespace
}  // namespace orlop::segment
