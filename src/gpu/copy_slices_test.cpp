// SPDX-License-Identifier: Apache-2.0
#include "gpu/copy_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/rng.h"
#include "copy/checksum.h"

namespace orlop::gpu {
namespace {

using Strip = CompiledLayout::Strip;
using testing::HasSubstr;

constexpr std::uint32_t kLayers = 4;

// Layers of one part; addresses are only numbers here.
CompiledLayout layout_of(std::uint64_t row_bytes) {
  KvLayout layout;
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    layout.parts.push_back({.name = "part",
                            .layer = i,
                            .base = (i + 1) * kMiB,
                            .pages = 8,
                            .page_stride = row_bytes,
                            .row_bytes = row_bytes});
  }
  auto compiled = CompiledLayout::compile(layout, kLayers * row_bytes);
  if (!compiled) throw std::runtime_error(compiled.error().message);
  return *std::move(compiled);
}

TEST(StripsOf, No_ranges_are_the_whole_value) {
  const auto strips = strips_of(layout_of(12), {});
  ASSERT_TRUE(strips);
  ASSERT_EQ(strips->size(), 1u);
  EXPECT_EQ((*strips)[0].begin, 0u);
  EXPECT_EQ((*strips)[0].end, 48u);
}

TEST(StripsOf, Ranges_keep_the_order_in_which_they_are_asked_for) {
  const LayerRange ranges[] = {{2, 4}, {0, 1}};
  const auto strips = strips_of(layout_of(64), ranges);
  ASSERT_TRUE(strips);
  ASSERT_EQ(strips->size(), 2u);
  EXPECT_EQ((*strips)[0].begin, 128u);
  EXPECT_EQ((*strips)[0].end, 256u);
  EXPECT_EQ((*strips)[1].begin, 0u);
  EXPECT_EQ((*strips)[1].end, 64u);
}

TEST(StripsOf, A_range_that_splits_a_word_of_the_checksum_is_refused_by_name) {
  const LayerRange ranges[] = {{0, 3}};
  const auto strips = strips_of(layout_of(12), ranges);
  ASSERT_FALSE(strips);
  EXPECT_EQ(strips.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(strips.error().message, HasSubstr("layers 0 to 3 end at byte 36"));
}

TEST(StripsOf, The_end_of_the_value_is_no_split) {
  const LayerRange ranges[] = {{2, 4}};  // 20 to 38 is refused, 24 to 48 is not
  EXPECT_TRUE(strips_of(layout_of(12), ranges));
  const LayerRange odd[] = {{0, kLayers}};
  EXPECT_TRUE(strips_of(layout_of(5), odd));
}

// Layers 0 and 2 of 12 bytes: layer 1 would lie at byte 12.
TEST(StripsOf, A_range_without_parts_cuts_nothing) {
  KvLayout layout;
  for (const std::uint32_t layer : {0U, 2U}) {
    layout.parts.push_back({.name = "part",
                            .layer = layer,
                            .base = (layer + 1) * kMiB,
                            .pages = 8,
                            .page_stride = 12,
                            .row_bytes = 12});
  }
  const auto compiled = CompiledLayout::compile(layout, 24);
  ASSERT_TRUE(compiled);
  const LayerRange ranges[] = {{1, 2}};
  const auto strips = strips_of(*compiled, ranges);
  ASSERT_TRUE(strips);
  ASSERT_EQ(strips->size(), 1u);
  EXPECT_EQ((*strips)[0].begin, 0u);
  EXPECT_EQ((*strips)[0].end, 0u);
}

TEST(StripsOf, Layers_that_go_twice_are_refused) {
  const LayerRange ranges[] = {{1, 3}, {0, 2}};
  const auto strips = strips_of(layout_of(64), ranges);
  ASSERT_FALSE(strips);
  EXPECT_EQ(strips.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(strips.error().message, HasSubstr("overlap"));
}

TEST(StripsOf, Layers_that_are_not_there_are_refused) {
  const LayerRange ranges[] = {{0, kLayers + 1}};
  EXPECT_FALSE(strips_of(layout_of(64), ranges));
}

// All slices of a strip, put together, are its values, each byte once and in order.
void expect_covers(std::span<const Slice> slices, std::size_t values,
                   std::span<const Strip> strips) {
  auto slice = slices.begin();
  for (std::uint32_t range = 0; range < strips.size(); ++range) {
    if (strips[range].begin == strips[range].end) continue;
    std::uint64_t value = 0, at = strips[range].begin;
    while (value < values) {
      ASSERT_NE(slice, slices.end()) << "bytes of value " << value << " are missing";
      ASSERT_EQ(slice->range, range);
      ASSERT_EQ(slice->first, value);
      ASSERT_EQ(slice->begin, at);
      ASSERT_GT(slice->count, 0u);
      ASSERT_GT(slice->end, slice->begin);
      ASSERT_LE(slice->end, strips[range].end);
      if (slice->end == strips[range].end) {
        value += slice->count;
        at = strips[range].begin;
      } else {
        ASSERT_EQ(slice->count, 1u) << "a cut value is alone";
        ASSERT_EQ(slice->end % kChecksumChunkBytes, 0u);
        at = slice->end;
      }
      ++slice;
    }
    ASSERT_EQ(value, values);
  }
  EXPECT_EQ(slice, slices.end()) << "slices of nothing";
}

void expect_within(std::span<const Slice> slices, const SliceLimits& limits) {
  for (const Slice& slice : slices) {
    EXPECT_LE(slice.stage_bytes(), limits.most_bytes);
    EXPECT_LE(slice.count, limits.most_values);
    if (slice.count > 1) {
      EXPECT_LE(slice.count * limits.numbers_per_value, limits.most_numbers);
    }
  }
}

TEST(CutSlices, Random_copies_go_once_and_within_the_limits) {
  Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::uint64_t at = 8 * rng.uniform(100);
    std::vector<Strip> strips;
    for (std::uint64_t n = rng.uniform(5); strips.size() <= n;) {
      const std::uint64_t bytes = 8 * rng.uniform(rng.uniform(2) == 0 ? 100 : 10'000);
      strips.push_back({at, at + bytes});
      at += bytes;
    }
    const std::size_t values = rng.uniform(300);
    const SliceLimits limits{.most_bytes = (2 + rng.uniform(30)) * kChecksumChunkBytes,
                             .least_bytes = (1 + rng.uniform(4)) * kChecksumChunkBytes,
                             .most_values = static_cast<std::uint32_t>(1 + rng.uniform(64)),
                             .numbers_per_value = static_cast<std::uint32_t>(rng.uniform(20)),
                             .most_numbers = static_cast<std::uint32_t>(1 + rng.uniform(200))};
    for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
      const std::vector<Slice> slices = cut_slices(values, strips, direction, limits);
      ASSERT_NO_FATAL_FAILURE(expect_covers(slices, values, strips)) << "round " << round;
      expect_within(slices, limits);
    }
    if (HasFailure()) return;
  }
}

TEST(CutSlices, A_restore_ends_with_short_slices_and_a_backup_begins_with_them) {
  const Strip whole[] = {{0, 64 * kKiB}};
  const SliceLimits limits{};
  const std::size_t values = 4096;  // 256 MiB
  const std::vector<Slice> restore = cut_slices(values, whole, CopyDirection::kRestore, limits);
  EXPECT_EQ(restore.front().bytes(), limits.most_bytes);
  EXPECT_LE(restore.back().bytes(), limits.least_bytes);
  const std::vector<Slice> backup = cut_slices(values, whole, CopyDirection::kBackup, limits);
  EXPECT_EQ(backup.front().bytes(), limits.least_bytes);
  EXPECT_EQ(backup[backup.size() - 2].bytes(), limits.most_bytes);
}

// A kernel twice as fast as the link then ends before the copy beside it does.
TEST(CutSlices, Slices_at_the_open_end_are_at_most_twice_as_long_as_what_is_copied_meanwhile) {
  const Strip whole[] = {{0, 64 * kKiB}};
  const SliceLimits limits{.most_bytes = 64 * kMiB};
  std::vector<Slice> slices = cut_slices(4096, whole, CopyDirection::kBackup, limits);
  EXPECT_LE(slices.size(), 8u);  // 2, 4, 12, 36, 64, 64, 64, 10 MiB
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    slices = cut_slices(4096, whole, direction, limits);
    if (direction == CopyDirection::kRestore) std::ranges::reverse(slices);
    std::uint64_t meanwhile = 0;
    for (const Slice& slice : slices) {
      EXPECT_LE(slice.bytes(), std::max(limits.least_bytes, 2 * meanwhile));
      meanwhile += slice.bytes();
    }
  }
}

TEST(CutSlices, A_value_longer_than_a_slice_is_cut_at_chunks_of_the_checksum) {
  const Strip whole[] = {{0, 3 * kMiB + 40}};
  const SliceLimits limits{.most_bytes = kMiB, .least_bytes = kMiB};
  const std::vector<Slice> slices = cut_slices(2, whole, CopyDirection::kRestore, limits);
  EXPECT_GE(slices.size(), 8u);
  expect_covers(slices, 2, whole);
  expect_within(slices, limits);
}

TEST(CutSlices, Cells_of_a_value_lie_on_cells_of_the_stage) {
  const Slice slice{.count = 3, .begin = 24, .end = 120};
  EXPECT_EQ(slice.lead(), 8u);
  EXPECT_EQ(slice.pitch(), 112u);
  EXPECT_EQ(slice.stage_bytes(), 336u);
  EXPECT_EQ(slice.bytes(), 288u);
}

// Memory with values in it, and what strip_copies makes of them, carried out.
class StripCopies : public testing::Test {
 protected:
  static constexpr std::uint64_t kNoBorder = std::numeric_limits<std::uint64_t>::max();

  StripCopies() : memory_(kMiB) {
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(rng_.uniform(256));
  }

  void place(std::initializer_list<std::uint64_t> offsets) {
    for (const std::uint64_t offset : offsets) values_.push_back(memory_.data() + offset);
  }
  void place_apart(std::uint64_t count, std::uint64_t distance) {
    for (std::uint64_t i = 0; i < count; ++i) values_.push_back(memory_.data() + i * distance);
  }

  std::uint64_t run_at(const void* at) const {
    if (border_ == kNoBorder)
      return memory_.data() + memory_.size() - static_cast<std::byte*>(const_cast<void*>(at));
    const auto offset =
        static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - memory_.data());
    return border_ - offset % border_;
  }

  std::vector<StripCopy> copies(const Slice& slice) const {
    std::vector<StripCopy> made;
    strip_copies(slice, values_, [this](const void* at) { return run_at(at); }, made);
    return made;
  }

  // Bytes of the slice are where they belong in the stage, all others untouched, no copy crosses a
  // border.
  void expect_right(const Slice& slice) const {
    std::vector<std::byte> expected(slice.stage_bytes() + 64, std::byte{0xEE});
    std::vector<std::byte> stage = expected;
    const std::uint64_t bytes = slice.end - slice.begin;
    for (std::uint64_t i = 0; i < slice.count; ++i) {
      std::memcpy(expected.data() + i * slice.pitch() + slice.lead(),
                  values_[slice.first + i] + slice.begin, bytes);
    }
    for (const StripCopy& copy : copies(slice)) {
      const std::uint64_t extent = (copy.rows - 1) * copy.host_pitch + copy.bytes;
      ASSERT_LE(extent, run_at(copy.host)) << "a copy crosses a border";
      ASSERT_LE(copy.stage + (copy.rows - 1) * copy.stage_pitch + copy.bytes, stage.size());
      for (std::uint64_t row = 0; row < copy.rows; ++row) {
        std::byte* const to = stage.data() + copy.stage + row * copy.stage_pitch;
        ASSERT_TRUE(
            std::all_of(to, to + copy.bytes, [](std::byte b) { return b == std::byte{0xEE}; }) ||
            copy.bytes < 8)
            << "bytes go twice";
        std::memcpy(to, copy.host + row * copy.host_pitch, copy.bytes);
      }
    }
    ASSERT_EQ(stage, expected);
  }

  Rng rng_{11};
  std::vector<std::byte> memory_;
  std::vector<std::byte*> values_;
  std::uint64_t border_ = kNoBorder;
};

TEST_F(StripCopies, Neighbours_become_one_copy) {
  place_apart(32, 4096);
  const Slice slice{.count = 32, .begin = 0, .end = 4096};
  expect_right(slice);
  const std::vector<StripCopy> made = copies(slice);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].bytes, 32u * 4096);
  EXPECT_EQ(made[0].rows, 1u);
}

TEST_F(StripCopies, Strips_at_equal_distances_become_rows_of_one_copy) {
  place_apart(32, 4096);
  const Slice slice{.count = 32, .begin = 1024, .end = 2048};
  expect_right(slice);
  const std::vector<StripCopy> made = copies(slice);
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].rows, 32u);
  EXPECT_EQ(made[0].host_pitch, 4096u);
  EXPECT_EQ(made[0].stage_pitch, 1024u);
}

TEST_F(StripCopies, A_few_rows_are_copies_of_their_own) {
  place_apart(7, 4096);
  const Slice slice{.count = 7, .begin = 1024, .end = 2048};
  expect_right(slice);
  EXPECT_EQ(copies(slice).size(), 7u);
}

TEST_F(StripCopies, Neighbours_are_cut_at_borders) {
  place_apart(32, 4096);
  border_ = 10'000;
  const Slice slice{.count = 32, .begin = 0, .end = 4096};
  expect_right(slice);
  EXPECT_EQ(copies(slice).size(), (32u * 4096 + border_ - 1) / border_);
}

TEST_F(StripCopies, Rows_end_before_a_border) {
  place_apart(64, 4096);
  border_ = 16 * 4096 - 2048;  // inside a strip, too
  const Slice slice{.count = 64, .begin = 1024, .end = 3072};
  expect_right(slice);
}

TEST_F(StripCopies, Values_in_falling_order_are_no_rows) {
  place({9 * 4096, 8 * 4096, 7 * 4096, 6 * 4096, 5 * 4096, 4 * 4096, 3 * 4096, 2 * 4096, 4096, 0});
  const Slice slice{.count = 10, .begin = 0, .end = 4096};
  expect_right(slice);
  EXPECT_EQ(copies(slice).size(), 10u);
}

TEST_F(StripCopies, A_slice_begins_at_its_first_value) {
  place_apart(8, 8192);
  const Slice slice{.first = 5, .count = 3, .begin = 8, .end = 4096};
  expect_right(slice);
  EXPECT_EQ(copies(slice)[0].host, memory_.data() + 5 * 8192 + 8);
}

TEST_F(StripCopies, Random_places_and_borders_give_the_right_bytes) {
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    const std::uint64_t length = 8 * (2 + rng_.uniform(200));
    values_.clear();
    // Slots in order with gaps of a few kinds, so that runs and changes of distance appear.
    for (std::uint64_t at = 0; at + length <= memory_.size() && values_.size() < 60;) {
      values_.push_back(memory_.data() + at);
      at += length + (rng_.uniform(8) == 0 ? 16 * rng_.uniform(50) : 16 * (round % 3));
    }
    if (round % 4 == 0) std::ranges::shuffle(values_, rng_);
    border_ = rng_.uniform(2) == 0 ? kNoBorder : 512 + rng_.uniform(30'000);
    Slice slice;
    slice.first = static_cast<std::uint32_t>(rng_.uniform(values_.size()));
    slice.count = static_cast<std::uint32_t>(1 + rng_.uniform(values_.size() - slice.first));
    if (round % 2 == 0) {
      slice.end = length;
    } else {
      slice.begin = 8 * rng_.uniform(length / 8);
      slice.end = slice.begin + 8 * (1 + rng_.uniform((length - slice.begin) / 8));
    }
    ASSERT_NO_FATAL_FAILURE(expect_right(slice)) << "round " << round;
  }
}

}  // namespace
}  // namespace orlop::gpu
