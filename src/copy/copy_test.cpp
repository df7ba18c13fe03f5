// SPDX-License-Identifier: Apache-2.0
#include "copy/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/rng.h"
#include "copy/copy_ways.h"
#include "copy/test_bytes.h"

namespace orlop {
namespace {

using Bytes = std::vector<std::byte>;
using testing::HasSubstr;

constexpr std::uint64_t kNeverStream = ~std::uint64_t{0};

class Copy : public testing::TestWithParam<CopyWay> {
 protected:
  CopyEngine engine_{GetParam().kind, GetParam().around_cache ? 0 : kNeverStream};
};
INSTANTIATE_TEST_SUITE_P(Ways, Copy, testing::ValuesIn(all_copy_ways()), copy_way_name);

std::uint64_t expected_of(const Bytes& value) {
  return CopyEngine(CopyKind::kScalar).checksum(value, kTestIdentity);
}

TEST_P(Copy, Any_length_and_alignment_copies_and_sums_exactly) {
  Rng rng(11);
  const Bytes pool = pattern_bytes(40'000);
  Bytes target(40'000);
  for (int i = 0; i < 3'000; ++i) {
    const std::size_t from = rng.uniform(200);
    const std::size_t to = rng.chance(0.3) ? 64 * rng.uniform(4) : rng.uniform(200);
    const std::size_t bytes = rng.chance(0.5) ? rng.uniform(700) : rng.uniform(39'000);
    std::ranges::fill(target, std::byte{0xc3});
    const Bytes value(pool.begin() + static_cast<std::ptrdiff_t>(from),
                      pool.begin() + static_cast<std::ptrdiff_t>(from + bytes));
    const std::uint64_t sum =
        engine_.copy_in(target.data() + to, pool.data() + from, bytes, kTestIdentity);
    ASSERT_EQ(sum, expected_of(value)) << from << " " << to << " " << bytes;
    ASSERT_TRUE(
        std::equal(value.begin(), value.end(), target.begin() + static_cast<std::ptrdiff_t>(to)));
    const auto untouched = [](std::byte b) { return b == std::byte{0xc3}; };
    ASSERT_TRUE(
        std::all_of(target.begin(), target.begin() + static_cast<std::ptrdiff_t>(to), untouched));
    ASSERT_TRUE(std::all_of(target.begin() + static_cast<std::ptrdiff_t>(to + bytes), target.end(),
                            untouched));
  }
}

// Aligned and longer than the pieces that are moved side by side; every rest of them.
TEST_P(Copy, Long_aligned_values_copy_and_sum_exactly) {
  Rng rng(12);
  constexpr std::size_t kMost = 5 * 16'384;
  const Bytes value = pattern_bytes(kMost);
  std::vector<std::byte> room(kMost + 128);
  std::byte* const target =
      room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  for (const std::size_t chunks : {0, 1, 3, 4, 5, 8, 11, 16, 19}) {
    for (const std::size_t more :
         {std::size_t{0}, std::size_t{4}, std::size_t{64}, std::size_t{rng.uniform(4096)}}) {
      const std::size_t bytes = chunks * 4096 + more;
      std::ranges::fill(room, std::byte{0xc3});
      const Bytes part(value.begin(), value.begin() + static_cast<std::ptrdiff_t>(bytes));
      const std::uint64_t sum = engine_.copy_in(target, part.data(), bytes, kTestIdentity);
      ASSERT_EQ(sum, expected_of(part)) << bytes;
      ASSERT_TRUE(std::equal(part.begin(), part.end(), target));
      ASSERT_EQ(target[bytes], std::byte{0xc3});
      ASSERT_TRUE(engine_.copy_out(target, part.data(), bytes, kTestIdentity, sum));
      ASSERT_FALSE(engine_.copy_out(target, part.data(), bytes, kTestIdentity, sum + 1));
    }
  }
}

// Memory between two pages that trap every access.
class Fenced {
 public:
  explicit Fenced(std::size_t pages) : bytes_(pages * page_) {
    void* const mapped =
        ::mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    whole_ = static_cast<std::byte*>(mapped);
    CHECK(::mprotect(begin(), bytes_, PROT_READ | PROT_WRITE) == 0);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { ::munmap(whole_, bytes_ + 2 * page_); }
  std::byte* begin() const { return whole_ + page_; }
  std::byte* end() const { return begin() + bytes_; }

 private:
  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t bytes_;
  std::byte* whole_;
};

TEST_P(Copy, Touches_nothing_beyond_either_end) {
  const Fenced source(3);
  const Fenced target(3);
  const Bytes pattern = pattern_bytes(3 * 4'096);
  std::memcpy(source.begin(), pattern.data(), pattern.size());
  std::vector<std::size_t> lengths(530);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = i;
  for (std::size_t near : {1'024U, 4'096U, 8'192U, 12'288U}) {
    for (std::size_t d = 0; d <= 9; ++d) lengths.push_back(near - d);
  }
  for (const std::size_t bytes : lengths) {
    for (const bool source_at_end : {false, true}) {
      for (const bool target_at_end : {false, true}) {
        const std::byte* const from = source_at_end ? source.end() - bytes : source.begin();
        std::byte* const to = target_at_end ? target.end() - bytes : target.begin();
        const std::uint64_t sum = engine_.copy_in(to, from, bytes, kTestIdentity);
        ASSERT_TRUE(engine_.verify(from, bytes, kTestIdentity, sum)) << bytes;
        ASSERT_EQ(bytes == 0 ? 0 : std::memcmp(to, from, bytes), 0) << bytes;
      }
    }
  }
}

TEST_P(Copy, Length_zero_accepts_null) {
  EXPECT_EQ(engine_.copy_in(nullptr, nullptr, 0, kTestIdentity), expected_of({}));
  EXPECT_TRUE(engine_.verify(nullptr, 0, kTestIdentity, expected_of({})));
}

TEST_P(Copy, Out_tells_right_from_wrong) {
  const Bytes value = pattern_bytes(10'000);
  Bytes target(value.size());
  const std::uint64_t sum = expected_of(value);
  EXPECT_TRUE(engine_.copy_out(target.data(), value.data(), value.size(), kTestIdentity, sum));
  EXPECT_EQ(target, value);
  EXPECT_FALSE(engine_.copy_out(target.data(), value.data(), value.size(), kTestIdentity, sum ^ 1));
  EXPECT_FALSE(engine_.copy_out(target.data(), value.data(), value.size() - 1, kTestIdentity, sum));
  EXPECT_FALSE(engine_.copy_out(target.data(), value.data(), value.size(), {}, sum));
  EXPECT_FALSE(engine_.verify(value.data(), value.size(), kTestIdentity, sum ^ 1));
}

TEST(CopyEngine, Hint_of_batch_does_not_change_results) {
  const Bytes value = pattern_bytes(5'000);
  for (const std::uint64_t batch :
       {std::uint64_t{0}, std::uint64_t{5'000}, std::uint64_t{1} << 40}) {
    Bytes target(value.size());
    EXPECT_EQ(copy_in(target.data(), value.data(), value.size(), kTestIdentity, {batch}),
              expected_of(value));
    EXPECT_EQ(target, value);
    EXPECT_TRUE(copy_out(target.data(), value.data(), value.size(), kTestIdentity,
                         expected_of(value), {batch}));
  }
  EXPECT_TRUE(verify(value.data(), value.size(), kTestIdentity, expected_of(value)));
}

TEST(CopyEngine, Scalar_is_always_supported_and_best_is_last) {
  const std::vector<CopyKind> kinds = CopyEngine::supported_kinds();
  ASSERT_FALSE(kinds.empty());
  EXPECT_EQ(kinds.front(), CopyKind::kScalar);
  EXPECT_EQ(kinds.back(), CopyEngine::best_kind());
}

TEST(CopyEngine, From_text_defaults_when_unset_or_empty) {
  for (const auto& text :
       {std::optional<std::string_view>{}, std::optional<std::string_view>{""}}) {
    const Result<CopyEngine> engine = CopyEngine::from_text(text, text);
    ASSERT_TRUE(engine.has_value());
    EXPECT_EQ(engine->kind(), CopyEngine::best_kind());
    EXPECT_EQ(engine->stream_in_bytes(), kDefaultStreamInBytes);
    EXPECT_EQ(engine->stream_out_bytes(), kDefaultStreamOutBytes);
  }
}

TEST(CopyEngine, From_text_takes_every_supported_kind) {
  for (const CopyKind kind : CopyEngine::supported_kinds()) {
    const Result<CopyEngine> engine = CopyEngine::from_text(to_string(kind), "64MiB");
    ASSERT_TRUE(engine.has_value());
    EXPECT_EQ(engine->kind(), kind);
    EXPECT_EQ(engine->stream_in_bytes(), std::uint64_t{64} << 20);
    EXPECT_EQ(engine->stream_out_bytes(), std::uint64_t{64} << 20);
  }
}

TEST(CopyEngine, From_text_refuses_unknown_names_and_sizes) {
  const Result<CopyEngine> kind = CopyEngine::from_text("avx1024", std::nullopt);
  ASSERT_FALSE(kind.has_value());
  EXPECT_EQ(kind.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(kind.error().message, HasSubstr("ORLOP_COPY=avx1024"));
  EXPECT_THAT(kind.error().message, HasSubstr("scalar"));
  const Result<CopyEngine> size = CopyEngine::from_text(std::nullopt, "much");
  ASSERT_FALSE(size.has_value());
  EXPECT_EQ(size.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(size.error().message, HasSubstr("ORLOP_COPY_STREAM_BYTES"));
}

}  // namespace
}  // namespace orlop
