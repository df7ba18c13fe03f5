// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace orlop::cli {
namespace {

TEST(Table, Columns_are_aligned_and_lines_have_no_trailing_spaces) {
  Table table("lrl");
  table.row({"requests", "3,000", ""}).row({"hit rate", "79.4 %", "of all pages"});
  EXPECT_EQ(table.text(1),
            " requests   3,000\n"
            " hit rate  79.4 %  of all pages\n");
}

TEST(Table, Rows_may_differ_in_length) {
  Table table;
  table.row({"a"}).row({"bb", "c", "d"});
  EXPECT_EQ(table.text(0), "a\nbb  c  d\n");
}

TEST(Table, Escapes_and_multibyte_characters_do_not_shift_columns) {
  const Painter paint(true);
  EXPECT_EQ(visible_width(paint(Ink::kGood, "ok")), 2u);
  EXPECT_EQ(visible_width("\xc2\xb5s"), 2u);
  Table table("ll");
  table.row({paint(Ink::kBad, "xx"), "1"}).row({"yyy", "2"});
  EXPECT_EQ(table.text(0), "\033[31mxx\033[0m   1\nyyy  2\n");
}

TEST(Painter, Without_colour_text_stays_as_it_is) {
  EXPECT_EQ(Painter(false)(Ink::kBad, "x"), "x");
  EXPECT_EQ(Painter(true)(Ink::kPlain, "x"), "x");
}

TEST(Colour, No_color_and_pipes_turn_it_off) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(wants_colour(ends[1]));
  EXPECT_EQ(terminal_width(ends[1]), 80u);
  ::close(ends[0]);
  ::close(ends[1]);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(wants_colour(1));
  ::unsetenv("NO_COLOR");
}

TEST(Bar, Part_is_clamped) {
  EXPECT_EQ(bar(0, 4), "[....]");
  EXPECT_EQ(bar(0.5, 4), "[##..]");
  EXPECT_EQ(bar(7, 4), "[####]");
  EXPECT_EQ(bar(-1, 4), "[....]");
}

TEST(Percent, Nothing_of_nothing_is_a_dash) {
  EXPECT_EQ(percent(1, 0), "-");
  EXPECT_EQ(percent(1, 8), "12.5 %");
  EXPECT_EQ(ratio(1, 0), 0);
}

TEST(Latency, Percentiles_are_microseconds) {
  Histogram histogram;
  for (int i = 0; i < 100; ++i) histogram.record(2000);
  EXPECT_NEAR(latency_us(histogram).p50, 2.0, 0.04);
  EXPECT_EQ(latency_us(Histogram{}).p99, 0);
}

}  // namespace
}  // namespace orlop::cli
