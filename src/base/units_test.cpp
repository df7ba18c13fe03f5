// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

namespace orlop {
namespace {

TEST(ParseBytes, Golden_table) {
  const std::vector<std::pair<std::string_view, std::uint64_t>> table = {
      {"0", 0},
      {"4096", 4096},
      {"512 B", 512},
      {"64K", 64 * kKiB},
      {"64k", 64 * kKiB},
      {"256MiB", 256 * kMiB},
      {" 256 mib ", 256 * kMiB},
      {"1.5 GiB", kGiB + kGiB / 2},
      {"0.3KiB", 307},  // 307.2: a fraction of a byte is dropped
      {"2T", 2048 * kGiB},
      {"18446744073709551615", ~std::uint64_t{0}},
  };
  for (const auto& [text, bytes] : table) {
    const Result<std::uint64_t> parsed = parse_bytes(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseBytes, Bad_text_says_what_is_wrong) {
  const std::vector<std::pair<std::string_view, std::string_view>> table = {
      {"", "does not start with a number"},
      {"MiB", "does not start with a number"},
      {"-1", "does not start with a number"},
      {".5G", "does not start with a number"},
      {"256MB", "ambiguous unit; write KiB"},
      {"3 parsecs", "unknown unit"},
      {"1.5", "not a whole number of bytes"},
      {"1.", "no digit after the point"},
      {"1.2.3K", "unknown unit"},
      {"0.1234567891G", "more than 9 digits"},
      {"18446744073709551616", "larger than 64 bits"},
      {"99999999 T", "larger than 64 bits"},
  };
  for (const auto& [text, why] : table) {
    const Result<std::uint64_t> parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(why), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(ParseDuration, Golden_table) {
  const std::vector<std::pair<std::string_view, MonoNs>> table = {
      {"0", 0},
      {"500ns", 500},
      {"250us", 250 * kNsPerUs},
      {"10 ms", 10 * kNsPerMs},
      {"1.5 s", 1500 * kNsPerMs},
      {"2M", 120 * kNsPerSecond},
      {"1h", 3600 * kNsPerSecond},
  };
  for (const auto& [text, ns] : table) {
    const Result<MonoNs> parsed = parse_duration(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, ns) << text;
  }
}

TEST(ParseDuration, Bad_text_is_an_error) {
  for (const std::string_view text : {"", "5", "5 days", "fast", "99999999999h"}) {
    const Result<MonoNs> parsed = parse_duration(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(FormatBytes, Golden_table) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(4096), "4.00 KiB");
  EXPECT_EQ(format_bytes(256 * kMiB), "256 MiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "16.0 EiB");
}

TEST(FormatCount, Golden_table) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(123456), "123,456");
  EXPECT_EQ(format_count(1234567), "1,234,567");
}

TEST(FormatDuration, Golden_table) {
  EXPECT_EQ(format_duration_ns(0), "0 ns");
  EXPECT_EQ(format_duration_ns(850), "850 ns");
  EXPECT_EQ(format_duration_ns(1'250), "1.25 us");
  EXPECT_EQ(format_duration_ns(999'999), "1.00 ms");
  EXPECT_EQ(format_duration_ns(12'500'000), "12.5 ms");
  EXPECT_EQ(format_duration_ns(3 * kNsPerSecond), "3.00 s");
  EXPECT_EQ(format_duration_ns(125 * kNsPerSecond), "2 m 05 s");
  EXPECT_EQ(format_duration_ns(3720 * kNsPerSecond), "1 h 02 m");
}

}  // namespace
}  // namespace orlop
