// SPDX-License-Identifier: Apache-2.0
#include "node/option_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "base/bytes.h"
#include "node/nearest_name.h"
#include "node/option_test_file.h"

namespace orlop::node {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string checked_in(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(ORLOP_SOURCE_DIR "/" + path).rdbuf();
  return text.str();
}

TEST(OptionTable, Rows_are_complete_and_unlike_each_other) {
  std::set<std::string> names;
  for (const OptionRow& row : option_rows()) {
    for (const std::string& name : {row.key, row.flag, row.variable}) {
      EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_NE(row.help, "") << row.key;
    EXPECT_NE(row.limits_text(), "") << row.key;
    EXPECT_NE(row.default_text(), "") << row.key;
    EXPECT_EQ(find_option(row.key), &row);
    EXPECT_EQ(find_by_variable(row.variable), &row);
    NodeOptions options;
    EXPECT_TRUE(row.set(options, row.example)) << row.key;
    EXPECT_EQ(row.get(options), row.example) << "what is printed can be read again: " << row.key;
  }
}

// Both ends of every range are taken, one step further is not.
TEST(OptionTable, Limits_that_are_printed_are_those_that_hold) {
  for (const OptionRow& row : option_rows()) {
    if (row.type != OptionType::kBytes && row.type != OptionType::kDuration) continue;
    const bool bytes = row.type == OptionType::kBytes;
    const auto text = [bytes](std::uint64_t n) { return std::to_string(n) + (bytes ? "B" : "ns"); };
    NodeOptions options;
    EXPECT_TRUE(row.set(options, text(row.range.least))) << row.key;
    EXPECT_TRUE(row.set(options, text(row.range.most))) << row.key;
    EXPECT_FALSE(row.set(options, text(row.range.most + 1))) << row.key;
    if (row.range.least > 0) {
      EXPECT_FALSE(row.set(options, text(row.range.least - 1))) << row.key;
    }
  }
}

TEST(OptionTable, Variables_follow_from_the_keys) {
  EXPECT_EQ(variable_of_key("memory.payload.value_len"), "ORLOP_MEMORY_PAYLOAD_VALUE_LEN");
  EXPECT_EQ(find_option("node.socket")->variable, "ORLOP_SOCKET");
  EXPECT_EQ(find_option("log.level")->variable, "ORLOP_LOG");
}

TEST(OptionReport, Page_in_docs_is_what_the_program_prints) {
  EXPECT_EQ(checked_in("docs/operations/configuration.md"), configuration_page())
      << "orlop config docs > docs/operations/configuration.md";
}

TEST(OptionReport, Sample_file_is_what_the_program_prints) {
  EXPECT_EQ(checked_in("packaging/orlop.toml"), sample_file())
      << "orlop config sample > packaging/orlop.toml";
}

TEST(OptionReport, Sample_file_is_valid_and_sizes_the_memory) {
  const OptionTestFile file(sample_file());
  const Settings settings = settle_file(file.path());
  EXPECT_THAT(settings.mistakes, IsEmpty());
  EXPECT_TRUE(settings.sized());
  EXPECT_EQ(settings.origins.size(), 1u);
}

// Every example of the sample is good as it stands: all lines with one # taken in, but for the
// other form of the memory's size.
TEST(OptionReport, Every_line_of_the_sample_can_be_used) {
  const std::string with_all =
      std::regex_replace(sample_file(), std::regex("\n#(?!payload)([a-z_]+ = )"), "\n$1");
  const OptionTestFile file(with_all);
  Settings settings = settle_file(file.path());
  // The examples are for larger nodes than the sample's.
  EXPECT_EQ(settings.origins.size(), option_rows().size() - 2) << with_all;
  for (const std::string& mistake : settings.mistakes) {
    EXPECT_THAT(mistake, HasSubstr("is more than the whole value area of 1GiB"));
  }
}

TEST(OptionReport, Derived_values_say_what_a_percentage_means) {
  OptionTexts texts;
  texts.by_key = {{"memory.capacity", "1GiB"}, {"client.max_pinned", "64MiB"}};
  const auto derived = derived_values(settle(texts));
  std::map<std::string, std::uint64_t> values;
  for (const DerivedValue& one : derived) values[one.name] = one.value;
  EXPECT_EQ(values["memory.value_bytes"], kGiB);
  EXPECT_EQ(values["memory.slab_bytes"], 32 * kMiB);
  EXPECT_EQ(values["memory.slabs"], 32u);
  EXPECT_EQ(values["eviction.reserve_bytes"], kGiB / 50);
  EXPECT_EQ(values["client.max_pinned_bytes"], 64 * kMiB);
  EXPECT_EQ(values["client.max_prepared_bytes"], kGiB / 4);
  EXPECT_THAT(derived_values(settle({})), IsEmpty());
}

TEST(NearestName, Finds_slips_and_is_silent_about_the_rest) {
  const std::vector<std::string> known = {"memory.capacity", "memory.touch", "node.socket"};
  EXPECT_EQ(nearest_name("memory.capcity", known), "memory.capacity");
  EXPECT_EQ(nearest_name("mem.touch", known), "memory.touch");
  EXPECT_EQ(nearest_name("socket", known), "node.socket");
  EXPECT_EQ(nearest_name("banana", known), "");
  EXPECT_EQ(nearest_name("shwo", {"check", "show"}), "show");
  EXPECT_EQ(nearest_name(std::string(1000, 'a'), known), "");
  EXPECT_EQ(nearest_name("--capcity", {"--capacity", "--config"}), "--capacity");
}

}  // namespace
}  // namespace orlop::node
