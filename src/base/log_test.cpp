// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace orlop {
namespace {

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    log_set_level(LogLevel::kDebug);
    log_set_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  void TearDown() override {
    log_set_sink(nullptr);
    log_set_process("");
    log_set_level(LogLevel::kInfo);
  }
  std::vector<std::string> lines_;
};

TEST_F(Log, Line_has_level_event_and_fields) {
  LOG_INFO("client_attached", {"client", ClientId{3}}, {"pid", 711}, {"ok", true}, {"ratio", 0.25});
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0], "level=info event=client_attached client=3 pid=711 ok=true ratio=0.25");
}

TEST_F(Log, Event_without_fields_and_process_name) {
  log_set_process("keeper");
  LOG_WARN("stopping");
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0], "level=warn proc=keeper event=stopping");
}

TEST_F(Log, Text_is_quoted_and_escaped_where_needed) {
  LOG_ERROR("refused", {"plain", "/run/orlop.sock"}, {"spaces", "other user"},
            {"quotes", std::string("a\"b\\c")}, {"lines", "x\ny\x01"}, {"empty", ""});
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0],
            "level=error event=refused plain=/run/orlop.sock spaces=\"other user\" "
            "quotes=\"a\\\"b\\\\c\" lines=\"x\\ny\\x01\" empty=\"\"");
}

TEST_F(Log, Level_below_threshold_is_not_evaluated) {
  log_set_level(LogLevel::kError);
  int evaluated = 0;
  LOG_WARN("quiet", {"n", ++evaluated});
  log_set_level(LogLevel::kOff);
  LOG_ERROR("quiet", {"n", ++evaluated});
  EXPECT_TRUE(lines_.empty());
  EXPECT_EQ(evaluated, 0);
}

TEST_F(Log, Level_names_lead_back) {
  for (const char* name : {"debug", "info", "warn", "error", "off"}) {
    const auto level = log_level_from_name(name);
    ASSERT_TRUE(level.has_value()) << name;
    EXPECT_EQ(to_string(*level), name);
  }
  EXPECT_FALSE(log_level_from_name("loud").has_value());
}

TEST_F(Log, Burst_of_one_site_is_cut_and_counted) {
  static constinit LogSite site(LogLevel::kWarn, "disk_slow");
  const MonoNs start = 1000 * kNsPerSecond;
  for (MonoNs i = 0; i < 50; ++i) site.write_at(start + i * kNsPerMs, {{"i", i}});
  ASSERT_EQ(lines_.size(), kLogLinesPerSecond);
  site.write_at(start + kNsPerSecond, {{"i", 50}});
  ASSERT_EQ(lines_.size(), kLogLinesPerSecond + 2);
  EXPECT_EQ(lines_[kLogLinesPerSecond], "level=warn event=log_suppressed of=disk_slow lines=40");
  EXPECT_EQ(lines_.back(), "level=warn event=disk_slow i=50");
}

TEST_F(Log, Suppressed_lines_of_a_silent_site_are_told_by_the_next_line_of_another) {
  static constinit LogSite noisy(LogLevel::kInfo, "noisy");
  static constinit LogSite other(LogLevel::kInfo, "other");
  const MonoNs start = 2000 * kNsPerSecond;
  for (int i = 0; i < 13; ++i) noisy.write_at(start, {});
  other.write_at(start + 2 * kNsPerSecond, {});
  ASSERT_EQ(lines_.size(), kLogLinesPerSecond + 2);
  EXPECT_EQ(lines_[kLogLinesPerSecond], "level=info event=log_suppressed of=noisy lines=3");
  other.write_at(start + 4 * kNsPerSecond, {});
  EXPECT_EQ(lines_.size(), kLogLinesPerSecond + 3) << "told once";
}

TEST(LogRateLimit, Window_starts_with_the_first_line_after_the_last) {
  LogRateLimit limit(2);
  EXPECT_TRUE(limit.admit(5));
  EXPECT_TRUE(limit.admit(5));
  EXPECT_FALSE(limit.admit(6));
  EXPECT_EQ(limit.take_suppressed(7), 0U) << "the second is not over";
  EXPECT_TRUE(limit.admit(5 + kNsPerSecond));
  EXPECT_EQ(limit.take_suppressed(5 + 3 * kNsPerSecond), 1U);
  EXPECT_EQ(limit.take_suppressed(5 + 4 * kNsPerSecond), 0U);
}

}  // namespace
}  // namespace orlop
