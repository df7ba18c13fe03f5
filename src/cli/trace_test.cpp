// SPDX-License-Identifier: Apache-2.0
#include "cli/trace.h"

#include <gtest/gtest.h>

#include <sstream>

namespace orlop::cli {
namespace {

Result<Trace> parse(const std::string& text, std::optional<std::size_t> limit = {}) {
  std::istringstream in(text);
  return parse_trace(in, "x.jsonl", limit);
}

TEST(Trace, Mooncake_lines_are_read) {
  const auto trace = parse(
      R"({"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]})"
      "\n\n"
      R"({"timestamp": 27482, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].pages, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(trace->requests[0].input_tokens, 6758u);
  EXPECT_EQ(trace->requests[1].timestamp_ms, 27482u);
  EXPECT_EQ(trace->page_count, 5u);
  EXPECT_EQ(trace->longest_request, 3u);
}

TEST(Trace, Only_hash_ids_are_needed_and_other_fields_are_skipped) {
  const auto trace = parse(R"({"hash_ids": [5], "user": "x", "timestamp": 1.5})");
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests[0].timestamp_ms, 1u);
}

TEST(Trace, Limit_stops_before_later_lines) {
  const auto trace = parse("{\"hash_ids\": [5]}\nrubbish\n", 1);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->requests.size(), 1u);
}

TEST(Trace, Malformed_line_is_named_by_file_and_line) {
  struct Case {
    const char* line;
    const char* complaint;
  };
  for (const Case& c : {
           Case{"rubbish", "not JSON"},
           Case{"[1]", "not a JSON object"},
           Case{"{}", "there is no \"hash_ids\""},
           Case{R"({"hash_ids": 3})", "not a list"},
           Case{R"({"hash_ids": []})", "not a list with a page"},
           Case{R"({"hash_ids": [1, -2]})", "[1] is not a whole number"},
           Case{R"({"hash_ids": [1, 1.5]})", "[1] is not a whole number"},
           Case{R"({"hash_ids": [1, "2"]})", "[1] is not a whole number"},
           Case{R"({"hash_ids": [7, 8, 7]})", "[2] repeats 7"},
           Case{R"({"hash_ids": [7], "timestamp": "noon"})", "\"timestamp\" is not a number"},
           Case{R"({"hash_ids": [7], "input_length": -1})", "\"input_length\" is not a number"},
       }) {
    const auto trace = parse(std::string("{\"hash_ids\": [1]}\n") + c.line + "\n");
    ASSERT_FALSE(trace.has_value()) << c.line;
    EXPECT_EQ(trace.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(trace.error().message.find("x.jsonl:2: "), std::string::npos)
        << trace.error().message;
    EXPECT_NE(trace.error().message.find(c.complaint), std::string::npos) << trace.error().message;
  }
}

TEST(Trace, Empty_file_is_refused) {
  EXPECT_FALSE(parse("").has_value());
  EXPECT_FALSE(parse("\n \n").has_value());
}

TEST(Trace, Missing_file_is_named) {
  const auto trace = read_trace("/nonexistent/trace.jsonl");
  ASSERT_FALSE(trace.has_value());
  EXPECT_NE(trace.error().message.find("/nonexistent/trace.jsonl"), std::string::npos);
  EXPECT_NE(trace.error().message.find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace orlop::cli
