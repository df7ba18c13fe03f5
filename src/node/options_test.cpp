// SPDX-License-Identifier: Apache-2.0
#include "node/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace orlop::node {
namespace {

using ::testing::HasSubstr;

Result<NodeOptions> from(std::map<std::string, std::string> texts, std::string config = {}) {
  return resolve({std::move(config), std::move(texts)});
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(::testing::TempDir() + "orlop_options_" + std::to_string(::getpid()) + ".toml") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(NodeOptions, Defaults_need_only_the_memory) {
  EXPECT_THAT(from({}).error().message, HasSubstr("either memory.capacity"));
  const auto options = from({{"memory.capacity", "256MiB"}});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory.capacity, 256 * kMiB);
  EXPECT_TRUE(options->memory.touch);
  EXPECT_EQ(options->admin, "127.0.0.1:0");
  EXPECT_NE(options->socket, "");
}

TEST(NodeOptions, File_is_read_and_flags_win) {
  const ConfigFile file(
      "[memory]\npayload = { value_len = 4718592, bytes = \"10GiB\" }\ntouch = false\n"
      "[eviction]\nreserve = 4096\n[node]\nallow_uids = \"7,8\"\nspin = \"5us\"\n"
      "[log]\nlevel = \"warn\"\n");
  const auto options = from({{"eviction.reserve", "1MiB"}}, file.path());
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory.payload_value_len, 4'718'592u);
  EXPECT_EQ(options->memory.payload_bytes, 10 * kGiB);
  EXPECT_FALSE(options->memory.touch);
  EXPECT_EQ(options->machine.reserve_bytes, kMiB);
  EXPECT_EQ(options->allow_uids, (std::vector<uid_t>{7, 8}));
  EXPECT_EQ(options->spin, 5 * kNsPerUs);
  EXPECT_EQ(options->log_level, LogLevel::kWarn);
}

TEST(NodeOptions, Unknown_key_names_the_nearest) {
  const ConfigFile file("[evict]\npolicy = \"lru\"\n");
  const auto options = from({{"memory.capacity", "256MiB"}}, file.path());
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error().message, HasSubstr("\"evict.policy\""));
  EXPECT_THAT(options.error().message, HasSubstr("did you mean \"eviction.policy\"?"));
}

TEST(NodeOptions, Broken_files_name_file_and_line) {
  const ConfigFile syntax("[memory\n");
  EXPECT_THAT(from({}, syntax.path()).error().message, HasSubstr(".toml:1"));
  const ConfigFile type("[memory]\ncapacity = 1.5\n");
  EXPECT_THAT(from({}, type.path()).error().message, HasSubstr("memory.capacity"));
  EXPECT_FALSE(from({}, "/nonexistent/orlop.toml"));
}

TEST(NodeOptions, Bad_values_name_the_flag) {
  const std::pair<const char*, const char*> cases[] = {{"memory.capacity", "--capacity"},
                                                       {"memory.touch", "--touch"},
                                                       {"memory.huge", "--huge"},
                                                       {"memory.numa", "--numa"},
                                                       {"memory.wait", "--memory-wait"},
                                                       {"node.allow_uids", "--allow-uids"},
                                                       {"eviction.policy", "--policy"},
                                                       {"log.level", "--log-level"},
                                                       {"node.spin", "--spin"}};
  for (const auto& [key, flag] : cases) {
    std::map<std::string, std::string> texts = {{"memory.capacity", "256MiB"}};
    texts[key] = "banana";
    const auto options = from(texts);
    ASSERT_FALSE(options) << key;
    EXPECT_EQ(options.error().code, ErrorCode::kInvalidArgument) << key;
    EXPECT_THAT(options.error().message, HasSubstr(flag));
  }
}

TEST(NodeOptions, Every_option_is_a_flag_and_has_an_effective_value) {
  CLI::App app;
  OptionTexts texts;
  add_options(app, texts);
  app.parse("--capacity 256MiB --policy lru --capacity 512MiB", false);
  const auto options = resolve(texts);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory.capacity, 512 * kMiB);  // the last one counts
  for (const auto& [key, value] : effective(*options)) {
    EXPECT_TRUE(texts.by_key.contains(key)) << key;
    EXPECT_NE(value, "") << key;
  }
  EXPECT_EQ(effective(*options).size(), texts.by_key.size());
}

}  // namespace
}  // namespace orlop::node
