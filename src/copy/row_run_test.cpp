// SPDX-License-Identifier: Apache-2.0
#include "copy/row_run.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "copy/copy.h"
#include "copy/copy_ways.h"
#include "copy/test_bytes.h"

namespace orlop {
namespace {

using Bytes = std::vector<std::byte>;

class RowRuns : public testing::TestWithParam<CopyWay> {
 protected:
  std::uint64_t move(const RowRun& rows) const {
    const std::uint64_t sum = engine_.move_rows(rows, GetParam().around_cache);
    engine_.end_rows();
    return sum;
  }
  CopyEngine engine_{GetParam().kind};
};
INSTANTIATE_TEST_SUITE_P(Ways, RowRuns, testing::ValuesIn(all_copy_ways()), copy_way_name);

// What the call has to do, one row at a time and nothing around the rows.
struct Expected {
  Bytes target;
  std::uint64_t sum = 0;
};
Expected expected_of(const RowRun& rows, const Bytes& source, std::size_t to, const Bytes& before) {
  Expected expected{before};
  const CopyEngine scalar(CopyKind::kScalar);
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t from = static_cast<std::size_t>(rows.src - source.data()) + i * rows.src_step;
    std::memcpy(expected.target.data() + to + i * rows.dst_step, source.data() + from,
                rows.row_bytes);
    expected.sum += scalar.raw_sum({source.data() + from, rows.row_bytes},
                                   rows.first_word + i * rows.word_step);
  }
  return expected;
}

TEST_P(RowRuns, Any_lengths_distances_and_places_copy_and_sum_exactly) {
  Rng rng(21);
  const Bytes source = pattern_bytes(200'000);
  const Bytes before(200'000, std::byte{0xc3});
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t unit = rng.chance(0.5) ? 64 : 8;
    const std::size_t most = rng.chance(0.2) ? 24'000 : 1'500;
    RowRun rows{.row_bytes = unit * rng.between(1, most / unit),
                .count = rng.between(1, 6),
                .first_word = 2 * rng.uniform(3'000),
                .word_step = 2 * rng.uniform(3'000)};
    if (rng.chance(0.2)) {
      rows.count = 1;
      rows.row_bytes += rng.uniform(8);
    }
    rows.dst_step = rows.row_bytes + (rng.chance(0.5) ? 0 : unit * rng.uniform(20));
    rows.src_step = rows.row_bytes + (rng.chance(0.5) ? 0 : unit * rng.uniform(20));
    const std::size_t to = rng.chance(0.5) ? 64 * rng.uniform(10) : rng.uniform(200);
    Bytes target = before;
    rows.src = source.data() + rng.uniform(300);
    rows.dst = target.data() + to;
    const Expected expected = expected_of(rows, source, to, before);
    ASSERT_EQ(move(rows), expected.sum) << rows.row_bytes << " x " << rows.count;
    ASSERT_EQ(target, expected.target) << rows.row_bytes << " x " << rows.count;
  }
}

// Long, aligned and in the middle of a value: the loop that moves four chunks side by side.
TEST_P(RowRuns, Long_pieces_anywhere_in_a_value_copy_and_sum_exactly) {
  Rng rng(22);
  const Bytes source = pattern_bytes(100'000);
  Bytes room(100'000 + 64);
  std::byte* const target =
      room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  const auto to = static_cast<std::size_t>(target - room.data());
  for (const std::uint64_t first_word : {0, 2, 16, 1'008, 1'022, 1'024, 5'120, 70'000 * 16}) {
    for (const std::size_t bytes : {16'384, 16'448, 20'480, 36'864 + 24, 81'920 + 8}) {
      const Bytes before = room;
      const RowRun rows{.dst = target,
                        .src = source.data() + 8 * rng.uniform(9),
                        .row_bytes = bytes,
                        .first_word = first_word};
      const Expected expected = expected_of(rows, source, to, before);
      ASSERT_EQ(move(rows), expected.sum) << first_word << " " << bytes;
      ASSERT_EQ(room, expected.target) << first_word << " " << bytes;
    }
  }
}

TEST_P(RowRuns, Rows_of_a_whole_value_in_any_order_add_up_to_its_sum) {
  const Bytes value = pattern_bytes(24 * 256);
  Bytes target(value.size());
  // 8 heads of 3 tokens, head by head in the value, token by token in the cache.
  std::uint64_t sum = 0;
  for (std::size_t token = 0; token < 3; ++token) {
    sum += move({.dst = target.data() + token * 8 * 256,
                 .src = value.data() + token * 256,
                 .row_bytes = 256,
                 .count = 8,
                 .dst_step = 256,
                 .src_step = 3 * 256,
                 .first_word = token * 64,
                 .word_step = 3 * 64});
  }
  EXPECT_EQ(sum, engine_.raw_sum(value));
  for (std::size_t head = 0; head < 8; ++head) {
    for (std::size_t token = 0; token < 3; ++token) {
      EXPECT_EQ(std::memcmp(target.data() + (token * 8 + head) * 256,
                            value.data() + (head * 3 + token) * 256, 256),
                0);
    }
  }
}

TEST_P(RowRuns, No_rows_touch_nothing) {
  EXPECT_EQ(move({.row_bytes = 64, .count = 0}), 0U);
  EXPECT_EQ(move({.row_bytes = 0, .count = 1}), 0U);
}

TEST(RowRunsDeathTest, Ragged_rows_stop) {
  Bytes bytes(64);
  const CopyEngine engine;
  EXPECT_DEATH(engine.move_rows({.dst = bytes.data(),
                                 .src = bytes.data() + 32,
                                 .row_bytes = 4,
                                 .count = 2,
                                 .dst_step = 4,
                                 .src_step = 4},
                                false),
               "multiples of 8");
  EXPECT_DEATH(engine.move_rows({.row_bytes = 0, .first_word = 1}, false), "multiples of 8");
}

}  // namespace
}  // namespace orlop
