// SPDX-License-Identifier: Apache-2.0
// The sums that an engine takes while it copies are those of copy/checksum.h: the same golden
// numbers as room copy, and every class of damage that a checksum has to see.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "copy/copy.h"
#include "copy/test_bytes.h"
#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

// One block of `bytes` a value; pages far enough apart to begin at multiples of 16.
KvLayout opaque(std::uint64_t first_address, std::uint64_t bytes, std::uint64_t pages) {
  KvLayout layout;
  layout.parts.push_back({.name = "opaque",
                          .base = first_address,
                          .pages = pages,
                          .page_stride = (bytes + 15) / 16 * 16,
                          .row_bytes = bytes});
  return layout;
}

// The same number of bytes in rows of a paged cache: 4 heads of 8 tokens in each of 2 parts.
KvLayout rows(std::uint64_t first_address, std::uint64_t bytes, std::uint64_t pages) {
  const std::uint64_t row = bytes / (2 * 4 * 8);
  KvLayout layout;
  for (std::uint32_t i = 0; i < 2; ++i) {
    layout.parts.push_back({.name = i == 0 ? "k" : "v",
                            .layer = i,
                            .base = first_address + i * pages * bytes / 2,
                            .pages = pages,
                            .page_stride = bytes / 2,
                            .heads = 4,
                            .head_stride = row,
                            .tokens = 8,
                            .token_stride = 4 * row,
                            .row_bytes = row});
  }
  return layout;
}

void set_value(Scene& scene, std::size_t i, std::span<const std::byte> bytes) {
  ASSERT_EQ(bytes.size(), scene.compiled().value_len());
  std::ranges::copy(
      bytes, scene.value_image().begin() + static_cast<std::ptrdiff_t>(scene.value_offset(i)));
}

TEST_P(CopierConformance, Golden_sums_match_both_ways) {
  for (const GoldenSum& golden : kGoldenSums) {
    if (golden.bytes == 0) continue;
    for (const bool in_rows : {false, true}) {
      if (in_rows && golden.bytes % 64 != 0) continue;
      SCOPED_TRACE(golden.bytes);
      Rng rng(14);
      const auto layout_of = in_rows ? rows : opaque;
      Scene scene(stage(), rng, layout_of(cache_->address(), golden.bytes, 3), 3,
                  Placement::kScattered);
      scene.fill(rng);
      for (std::size_t i = 0; i < 3; ++i) set_value(scene, i, pattern_bytes(golden.bytes));
      scene.upload_values();
      const auto restore = run(scene.request(CopyDirection::kRestore));
      ASSERT_NE(restore, nullptr);
      const auto backup = run(scene.request(CopyDirection::kBackup));
      ASSERT_NE(backup, nullptr);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(restore->raw_sums()[i], golden.sum);
        EXPECT_EQ(backup->raw_sums()[i], golden.sum);
        EXPECT_EQ(finalise(restore->raw_sums()[i], golden.bytes, kTestIdentity), golden.identified);
      }
    }
  }
}

TEST_P(CopierConformance, Uniform_values_match_golden_sums) {
  for (const auto& [byte, golden] :
       {std::pair{std::byte{0}, kGoldenSumOfZeros}, std::pair{std::byte{0xff}, kGoldenSumOfOnes}}) {
    Rng rng(15);
    Scene scene(stage(), rng, rows(cache_->address(), 65'536, 2), 2, Placement::kAdjacent);
    scene.fill(rng);
    for (std::size_t i = 0; i < 2; ++i) set_value(scene, i, Bytes(65'536, byte));
    scene.upload_values();
    const auto job = run(scene.request(CopyDirection::kRestore));
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(sums_of(*job), std::vector<std::uint64_t>(2, golden));
  }
}

// Restores damaged forms of one value, as many at a time as fit; every sum must be that of the
// damaged bytes and none that of the right ones.
class Damages {
 public:
  using Run = std::function<std::shared_ptr<CopyJob>(const CopyRequest&)>;
  Damages(Scene& scene, Bytes right, Run run)
      : scene_(scene), right_(std::move(right)), run_(std::move(run)) {}

  void add(const std::function<void(Bytes&)>& damage) {
    Bytes damaged = right_;
    damage(damaged);
    if (damaged == right_) return;
    set_value(scene_, waiting_, damaged);
    wanted_.push_back(scalar_.raw_sum(damaged));
    if (++waiting_ == scene_.value_count()) flush();
  }
  void flush() {
    scene_.upload_values();
    const auto job = run_(scene_.request(CopyDirection::kRestore));
    ASSERT_NE(job, nullptr);
    const std::uint64_t right = scalar_.raw_sum(right_);
    for (std::size_t i = 0; i < waiting_; ++i, ++tried_) {
      ASSERT_EQ(job->raw_sums()[i], wanted_[i]) << "damage " << tried_;
      ASSERT_NE(job->raw_sums()[i], right) << "damage " << tried_;
    }
    waiting_ = 0;
    wanted_.clear();
  }
  std::size_t tried() const { return tried_; }

 private:
  const CopyEngine scalar_{CopyKind::kScalar};
  Scene& scene_;
  const Bytes right_;
  const Run run_;
  std::size_t waiting_ = 0;
  std::size_t tried_ = 0;
  std::vector<std::uint64_t> wanted_;
};

void flip(Bytes& value, std::size_t bit) {
  value[bit / 8] ^= std::byte{1} << (bit % 8);
}

// Every bit of a value that has a whole chunk, a short one and a ragged end.
TEST_P(CopierConformance, Every_single_flip_changes_the_sum) {
  constexpr std::size_t kLength = 4'096 + 13;
  Rng rng(16);
  Scene scene(stage(), rng, opaque(cache_->address(), kLength, 3'000), 3'000, Placement::kAdjacent);
  ASSERT_EQ(scene.value_count(), 3'000U);
  scene.fill(rng);
  Damages damages(scene, pattern_bytes(kLength),
                  [this](const auto& request) { return run(request); });
  for (std::size_t bit = 0; bit < 8 * kLength; ++bit) {
    damages.add([&](Bytes& value) { flip(value, bit); });
    ASSERT_FALSE(HasFatalFailure());
  }
  damages.flush();
  EXPECT_EQ(damages.tried(), 8 * kLength);
}

TEST_P(CopierConformance, Flips_in_rows_of_every_part_change_the_sum) {
  constexpr std::size_t kLength = 16'384;
  Rng rng(17);
  Scene scene(stage(), rng, rows(cache_->address(), kLength, 900), 900, Placement::kScattered);
  ASSERT_EQ(scene.value_count(), 900U);
  scene.fill(rng);
  Damages damages(scene, pattern_bytes(kLength),
                  [this](const auto& request) { return run(request); });
  // One bit of every word, another one each time; both words of a pair, every place of a chunk.
  for (std::size_t word = 0; word < kLength / 4; ++word) {
    damages.add([&](Bytes& value) { flip(value, 32 * word + rng.uniform(32)); });
    ASSERT_FALSE(HasFatalFailure());
  }
  damages.flush();
}

TEST_P(CopierConformance, Pairs_swaps_shifts_and_stale_bytes_change_the_sum) {
  constexpr std::size_t kLength = 16'384;
  Rng rng(18);
  Scene scene(stage(), rng, rows(cache_->address(), kLength, 900), 900, Placement::kAdjacent);
  scene.fill(rng);
  Damages damages(scene, pattern_bytes(kLength),
                  [this](const auto& request) { return run(request); });
  const Bytes stale = random_bytes(rng, kLength);
  const auto swap = [](Bytes& value, std::size_t a, std::size_t b, std::size_t bytes) {
    std::swap_ranges(value.begin() + static_cast<std::ptrdiff_t>(a),
                     value.begin() + static_cast<std::ptrdiff_t>(a + bytes),
                     value.begin() + static_cast<std::ptrdiff_t>(b));
  };
  for (int i = 0; i < 1'500; ++i) {
    const std::size_t a = rng.uniform(kLength / 4);
    const std::size_t b = rng.uniform(kLength / 4);
    const std::size_t bit = rng.uniform(32);
    damages.add([&](Bytes& value) {
      flip(value, 32 * a + bit);
      flip(value, 32 * b + bit);
    });
    damages.add([&](Bytes& value) { swap(value, 4 * a, 4 * b, 4); });
    ASSERT_FALSE(HasFatalFailure());
  }
  for (std::size_t chunk = 1; chunk < kLength / 4096; ++chunk) {
    for (const std::size_t bytes : {64U, 256U, 4'096U}) {
      damages.add([&](Bytes& value) { swap(value, 0, chunk * 4'096, bytes); });
    }
  }
  for (const std::ptrdiff_t shift : {1, 2, 4, 8, 16, 64, 256, 512, 4'096, 8'192}) {
    damages.add([&](Bytes& value) { std::ranges::rotate(value, value.begin() + shift); });
  }
  for (std::size_t line = 0; line < kLength; line += 64) {
    const auto at = static_cast<std::ptrdiff_t>(line);
    damages.add([&](Bytes& value) { std::copy_n(stale.begin() + at, 64, value.begin() + at); });
    damages.add([&](Bytes& value) { std::fill(value.begin() + at, value.end(), std::byte{0}); });
    ASSERT_FALSE(HasFatalFailure());
  }
  damages.flush();
}

}  // namespace
}  // namespace orlop::gpu::conformance
