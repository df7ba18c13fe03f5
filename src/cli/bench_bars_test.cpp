// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_bars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace orlop::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

BenchBar bar_of(std::optional<double> value, double bar, BarSense sense) {
  return {.name = "row", .value = value, .bar = bar, .sense = sense, .unit = "x", .note = "why"};
}

TEST(BenchBar, Value_on_the_bar_holds_except_below) {
  EXPECT_TRUE(bar_of(1.5, 1.5, BarSense::kAtMost).ok());
  EXPECT_FALSE(bar_of(1.51, 1.5, BarSense::kAtMost).ok());
  EXPECT_TRUE(bar_of(3.0, 3.0, BarSense::kAtLeast).ok());
  EXPECT_FALSE(bar_of(2.9, 3.0, BarSense::kAtLeast).ok());
  EXPECT_FALSE(bar_of(1.0, 1.0, BarSense::kBelow).ok());
  EXPECT_TRUE(bar_of(0.99, 1.0, BarSense::kBelow).ok());
}

TEST(BenchBar, Without_a_value_is_missed) {
  for (const BarSense sense : {BarSense::kAtMost, BarSense::kAtLeast, BarSense::kBelow}) {
    EXPECT_FALSE(bar_of(std::nullopt, 1, sense).ok());
    EXPECT_FALSE(bar_of(std::nan(""), 1, sense).ok());
  }
}

TEST(BenchReport, Holds_only_if_every_bar_does_and_there_is_one) {
  BenchReport report;
  EXPECT_FALSE(report.ok());
  report.bars.push_back(bar_of(1, 2, BarSense::kAtMost));
  EXPECT_TRUE(report.ok());
  report.bars.push_back(bar_of(1, 2, BarSense::kAtLeast));
  EXPECT_FALSE(report.ok());
}

TEST(BenchReport, Json_has_the_shape_that_scripts_read) {
  BenchReport report;
  report.bars = {bar_of(1.25, 2, BarSense::kAtMost), bar_of(std::nullopt, 3, BarSense::kAtLeast)};
  report.machine = "m";
  report.date = "d";
  const Json json = Json::parse(to_json(report).dump());
  ASSERT_EQ(json.at("bars").size(), 2u);
  EXPECT_EQ(json["bars"][0]["name"], "row");
  EXPECT_EQ(json["bars"][0]["value"], 1.25);
  EXPECT_EQ(json["bars"][0]["bar"], 2.0);
  EXPECT_EQ(json["bars"][0]["ok"], true);
  EXPECT_TRUE(json["bars"][1]["value"].is_null());
  EXPECT_EQ(json["bars"][1]["ok"], false);
  EXPECT_EQ(json["machine"], "m");
  EXPECT_EQ(json["date"], "d");
  EXPECT_EQ(json["ok"], false);
}

TEST(BenchReport, Table_names_value_bar_verdict_and_remark) {
  BenchReport report;
  report.bars = {bar_of(1.25, 2, BarSense::kAtMost), bar_of(std::nullopt, 3, BarSense::kAtLeast)};
  report.remarks = {"skipped: something"};
  const std::string text = to_table(report, Painter(false));
  EXPECT_THAT(text, HasSubstr("1.25 x"));
  EXPECT_THAT(text, HasSubstr("<= 2 x"));
  EXPECT_THAT(text, HasSubstr("MISSED"));
  EXPECT_THAT(text, HasSubstr("skipped: something"));
}

TEST(BestRatio, Keeps_the_smallest_ratio_and_its_sides) {
  BestRatio best;
  best.add(6e-6, 2e-6);
  best.add(4e-6, 2e-6);
  best.add(1e-5, 2e-6);
  EXPECT_DOUBLE_EQ(best.ratio(), 2.0);
  EXPECT_EQ(best.sides(), "4.00 us against 2.00 us");
}

TEST(Median, Is_the_middle_sample) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1}), 4);
}

}  // namespace
}  // namespace orlop::cli
