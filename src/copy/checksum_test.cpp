// SPDX-License-Identifier: Apache-2.0
// The definition itself: pinned numbers (computed by a separate Python program written from the
// text of checksum.h), agreement with a naive transcription, and the errors it has to find. Every
// test runs for every kind this CPU has.
#include "copy/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/rng.h"
#include "copy/copy.h"
#include "copy/test_bytes.h"

namespace orlop {
namespace {

using Bytes = std::vector<std::byte>;

// The definition, transcribed word by word.
std::uint64_t naive_sum(std::span<const std::byte> value) {
  const auto word = [&](std::size_t j) {
    std::uint32_t w = 0;
    for (std::size_t i = 0; i < 4 && 4 * j + i < value.size(); ++i) {
      w |= std::to_integer<std::uint32_t>(value[4 * j + i]) << (8 * i);
    }
    return w;
  };
  const auto key = [](std::size_t j) {
    return kChecksumTable[j % 1024] + checksum_chunk_key(j / 1024);
  };
  std::uint64_t sum = 0;
  for (std::size_t j = 0; 4 * j < value.size(); j += 2) {
    const std::uint32_t even = word(j) + key(j);
    const std::uint32_t odd = word(j + 1) + key(j + 1);
    sum += std::uint64_t{even} * odd;
  }
  return sum;
}

std::string kind_name(const testing::TestParamInfo<CopyKind>& info) {
  return std::string(to_string(info.param));
}

class Checksum : public testing::TestWithParam<CopyKind> {
 protected:
  std::uint64_t sum_of(const Bytes& value) const { return engine_.checksum(value, kTestIdentity); }
  CopyEngine engine_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Kinds, Checksum, testing::ValuesIn(CopyEngine::supported_kinds()),
                         kind_name);

TEST(ChecksumConstants, Table_and_chunk_keys_are_pinned) {
  EXPECT_EQ(kChecksumTable[0], 0xf883918dU);
  EXPECT_EQ(kChecksumTable[1], 0x5c0cd50eU);
  EXPECT_EQ(kChecksumTable[2], 0xfd1f4bccU);
  EXPECT_EQ(kChecksumTable[1023], 0x821251a5U);
  EXPECT_EQ(std::accumulate(kChecksumTable.begin(), kChecksumTable.end(), std::uint64_t{0}),
            0x1f0a0d7b98eU);
  EXPECT_EQ(checksum_chunk_key(0), 0U);
  EXPECT_EQ(checksum_chunk_key(1), 0x688990c0U);
  EXPECT_EQ(checksum_chunk_key(2), 0xd1132181U);
  EXPECT_EQ(checksum_chunk_key(1000), 0x53df6d52U);
  EXPECT_EQ(checksum_chunk_key(0xffffffff), 0x6768824aU);
}

// Two positions with one key would let their words be swapped unseen.
TEST(ChecksumConstants, Table_words_are_distinct) {
  const std::set<std::uint32_t> words(kChecksumTable.begin(), kChecksumTable.end());
  EXPECT_EQ(words.size(), kChecksumTable.size());
}

TEST_P(Checksum, Golden_vectors_match) {
  for (const GoldenSum& golden : kGoldenSums) {
    const Bytes value = pattern_bytes(golden.bytes);
    EXPECT_EQ(engine_.raw_sum(value), golden.sum) << golden.bytes;
    EXPECT_EQ(engine_.checksum(value, {}), golden.all_zero) << golden.bytes;
    EXPECT_EQ(engine_.checksum(value, kTestIdentity), golden.identified) << golden.bytes;
  }
}

TEST_P(Checksum, Uniform_values_match_golden) {
  EXPECT_EQ(engine_.raw_sum(Bytes(65536, std::byte{0})), kGoldenSumOfZeros);
  EXPECT_EQ(engine_.raw_sum(Bytes(65536, std::byte{0xff})), kGoldenSumOfOnes);
  EXPECT_EQ(engine_.checksum(Bytes(65536, std::byte{0}), kTestIdentity), 0xf9864da339022512U);
  EXPECT_EQ(engine_.checksum(Bytes(65536, std::byte{0xff}), kTestIdentity), 0x8b6757afeee7b62dU);
}

TEST_P(Checksum, Random_lengths_and_alignments_match_definition) {
  Rng rng(1);
  const Bytes pool = pattern_bytes(20'000);
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t offset = rng.uniform(130);
    const std::size_t bytes = rng.chance(0.5) ? rng.uniform(600) : rng.uniform(19'000);
    const std::span<const std::byte> value(pool.data() + offset, bytes);
    ASSERT_EQ(engine_.raw_sum(value), naive_sum(value)) << offset << " " << bytes;
  }
}

TEST_P(Checksum, Sum_of_parts_in_any_cut_is_sum_of_whole) {
  Rng rng(2);
  const Bytes value = pattern_bytes(30'003);
  const std::uint64_t whole = engine_.raw_sum(value);
  for (int i = 0; i < 500; ++i) {
    std::uint64_t sum = 0;
    std::size_t done = 0;
    while (done < value.size()) {
      const std::size_t part =
          std::min<std::size_t>(value.size() - done, 8 * rng.between(1, rng.between(1, 2'000)));
      sum += engine_.raw_sum(std::span(value).subspan(done, part), done / 4);
      done += part;
    }
    ASSERT_EQ(sum, whole);
  }
}

TEST(ChecksumDeathTest, Part_at_an_odd_word_stops) {
  const Bytes value(8);
  EXPECT_DEATH(raw_sum(value, 3), "multiple of 8");
}

TEST(ChecksumFree, Functions_agree_with_golden) {
  const Bytes value = pattern_bytes(4100);
  EXPECT_EQ(raw_sum(value), 0x67097034e7259fb3U);
  EXPECT_EQ(checksum(value, kTestIdentity), 0x22cde290b18820d4U);
  EXPECT_EQ(finalise(raw_sum(value), value.size(), kTestIdentity), 0x22cde290b18820d4U);
}

// --- error classes: each must change the result ---

TEST_P(Checksum, Single_flips_are_detected) {
  Bytes value = pattern_bytes(4'096 + 13);
  const std::uint64_t right = sum_of(value);
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    value[bit / 8] ^= mask;
    ASSERT_NE(sum_of(value), right) << bit;
    value[bit / 8] ^= mask;
  }
}

// The same bit of two words, once up and once down: a plain sum of words would not move.
TEST_P(Checksum, Opposite_flips_of_one_bit_are_detected) {
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    Bytes value = pattern_bytes(8'192);
    const std::size_t bit = rng.uniform(32);
    const std::size_t a = 4 * rng.uniform(2'048) + bit / 8;
    const std::size_t b = 4 * rng.uniform(2'048) + bit / 8;
    if (a == b) continue;
    const std::byte mask = std::byte{1} << (bit % 8);
    value[a] |= mask;
    value[b] &= ~mask;
    const std::uint64_t right = sum_of(value);
    value[a] ^= mask;
    value[b] ^= mask;
    ASSERT_NE(sum_of(value), right) << a << " " << b << " " << bit;
  }
}

TEST_P(Checksum, Two_flips_of_the_top_bit_are_detected) {
  Rng rng(4);
  Bytes value(8'192);
  const std::uint64_t right = sum_of(value);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t a = 4 * rng.uniform(2'048) + 3;
    const std::size_t b = 4 * rng.uniform(2'048) + 3;
    if (a == b) continue;
    value[a] ^= std::byte{0x80};
    value[b] ^= std::byte{0x80};
    ASSERT_NE(sum_of(value), right) << a << " " << b;
    value[a] ^= std::byte{0x80};
    value[b] ^= std::byte{0x80};
  }
}

void swap_ranges(Bytes& value, std::size_t a, std::size_t b, std::size_t bytes) {
  std::swap_ranges(value.begin() + static_cast<std::ptrdiff_t>(a),
                   value.begin() + static_cast<std::ptrdiff_t>(a + bytes),
                   value.begin() + static_cast<std::ptrdiff_t>(b));
}

TEST_P(Checksum, Swapped_words_are_detected) {
  Rng rng(5);
  Bytes value = pattern_bytes(16'384);
  const std::uint64_t right = sum_of(value);
  for (std::size_t word = 0; word < 4'095; ++word) {  // neighbours: partners and strangers
    swap_ranges(value, 4 * word, 4 * word + 4, 4);
    ASSERT_NE(sum_of(value), right) << word;
    swap_ranges(value, 4 * word, 4 * word + 4, 4);
  }
  for (int i = 0; i < 5'000; ++i) {
    const std::size_t a = rng.uniform(4'096);
    const std::size_t b = rng.uniform(4'096);
    if (a == b) continue;
    swap_ranges(value, 4 * a, 4 * b, 4);
    ASSERT_NE(sum_of(value), right) << a << " " << b;
    swap_ranges(value, 4 * a, 4 * b, 4);
  }
}

TEST_P(Checksum, Swapped_chunks_are_detected) {
  Bytes value = pattern_bytes(32 * 4'096);
  const std::uint64_t right = sum_of(value);
  for (const std::size_t bytes : {64U, 256U, 4'096U}) {
    for (std::size_t a = 0; a < 31; ++a) {
      for (std::size_t b = a + 1; b < 32; ++b) {
        swap_ranges(value, a * 4'096, b * 4'096, bytes);  // the same place of two chunks
        ASSERT_NE(sum_of(value), right) << a << " " << b << " " << bytes;
        swap_ranges(value, a * 4'096, b * 4'096, bytes);
      }
    }
  }
}

TEST_P(Checksum, Shifted_data_is_detected) {
  const Bytes value = pattern_bytes(12'288);
  const std::uint64_t right = sum_of(value);
  for (const int shift : {1, 2, 3, 4, 8, 16, 64, 512, 4'096, 8'192}) {
    Bytes rotated = value;
    std::ranges::rotate(rotated, rotated.begin() + shift);
    EXPECT_NE(sum_of(rotated), right) << shift;
    Bytes moved(value.size());  // shifted in with zeros
    std::copy(value.begin(), value.end() - shift, moved.begin() + shift);
    EXPECT_NE(sum_of(moved), right) << shift;
  }
}

TEST_P(Checksum, Zeroed_tail_is_detected) {
  const Bytes value(8'200, std::byte{0x5a});
  const std::uint64_t right = sum_of(value);
  for (std::size_t tail = 1; tail <= value.size(); ++tail) {
    Bytes torn = value;
    std::fill(torn.end() - static_cast<std::ptrdiff_t>(tail), torn.end(), std::byte{0});
    ASSERT_NE(sum_of(torn), right) << tail;
  }
}

TEST_P(Checksum, Stale_bytes_of_another_page_are_detected) {
  Rng rng(6);
  const Bytes value = pattern_bytes(16'384);
  Bytes other(value.size());
  for (std::byte& b : other) b = std::byte(rng.next() & 0xff);
  const std::uint64_t right = sum_of(value);
  EXPECT_NE(sum_of(other), right);
  for (std::size_t line = 0; line < value.size(); line += 64) {
    Bytes mixed = value;  // one cache line of the slot's former page
    std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(line), 64,
                mixed.begin() + static_cast<std::ptrdiff_t>(line));
    ASSERT_NE(sum_of(mixed), right) << line;
    std::copy(other.begin() + static_cast<std::ptrdiff_t>(line), other.end(),
              mixed.begin() + static_cast<std::ptrdiff_t>(line));  // all from there on
    ASSERT_NE(sum_of(mixed), right) << line;
  }
}

// Zero padding alone would make a value and its zero-extended form equal.
TEST_P(Checksum, Wrong_length_is_detected) {
  const Bytes value(4'096);
  const std::uint64_t right = sum_of(value);
  for (std::size_t bytes = 4'080; bytes <= 4'112; ++bytes) {
    if (bytes == value.size()) continue;
    EXPECT_NE(sum_of(Bytes(bytes)), right) << bytes;
  }
}

TEST_P(Checksum, Wrong_identity_is_detected) {
  const Bytes value = pattern_bytes(4'096);
  const std::uint64_t right = sum_of(value);
  for (int bit = 0; bit < 64; ++bit) {
    ChecksumIdentity lo = kTestIdentity;
    ChecksumIdentity hi = kTestIdentity;
    ChecksumIdentity digest = kTestIdentity;
    lo.key.lo ^= std::uint64_t{1} << bit;
    hi.key.hi ^= std::uint64_t{1} << bit;
    digest.namespace_digest ^= std::uint64_t{1} << bit;
    for (const ChecksumIdentity& wrong : {lo, hi, digest}) {
      EXPECT_NE(engine_.checksum(value, wrong), right) << bit;
    }
  }
  const ChecksumIdentity halves_swapped{{kTestIdentity.key.hi, kTestIdentity.key.lo},
                                        kTestIdentity.namespace_digest};
  EXPECT_NE(engine_.checksum(value, halves_swapped), right);
}

}  // namespace
}  // namespace orlop
