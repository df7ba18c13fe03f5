// SPDX-License-Identifier: Apache-2.0
// Where values come from, which one counts, and what every source of a mistake is told.
#include "node/option_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/bytes.h"
#include "node/option_test_file.h"

namespace orlop::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::map<std::string, std::string>;

OptionTexts said(Texts flags, Texts environment = {}, const std::string& config = {}) {
  OptionTexts texts;
  if (!config.empty()) texts.config = config;
  texts.by_key = std::move(flags);
  texts.environment = std::move(environment);
  return texts;
}

TEST(OptionSources, Defaults_need_only_the_memory) {
  const auto nothing = resolve(said({}));
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(nothing.error().message,
            "memory.capacity is not given; write --capacity 64GiB, set ORLOP_MEMORY_CAPACITY, or "
            "give memory.payload.value_len and memory.payload.bytes");
  const auto options = resolve(said({{"memory.capacity", "256MiB"}}));
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory.capacity, 256 * kMiB);
  EXPECT_TRUE(options->memory.touch);
  EXPECT_EQ(options->admin, "127.0.0.1:0");
  EXPECT_NE(options->socket, "");
}

TEST(OptionSources, Every_kind_of_value_is_read_from_a_file) {
  const OptionTestFile file(
      "[memory]\npayload = { value_len = \"4608KiB\", bytes = \"10GiB\" }\ntouch = false\n"
      "huge = \"off\"\nnuma = \"node:1\"\n[eviction]\nreserve = \"1.5 MiB\"\n"
      "[node]\nallow_uids = [7, 8]\nspin = \"5us\"\nunsafe_no_pidfd = \"on\"\n"
      "[log]\nlevel = \"warn\"\n");
  const auto options = resolve(said({}, {}, file.path()));
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->memory.payload_value_len, 4'718'592u);
  EXPECT_EQ(options->memory.payload_bytes, 10 * kGiB);
  EXPECT_FALSE(options->memory.touch);
  EXPECT_EQ(options->memory.huge, HugePages::kOff);
  EXPECT_EQ(options->memory.numa.node, 1);
  EXPECT_EQ(options->machine.reserve_bytes, 3 * kMiB / 2);
  EXPECT_THAT(options->allow_uids, ElementsAre(7, 8));
  EXPECT_EQ(options->spin, 5 * kNsPerUs);
  EXPECT_TRUE(options->unsafe_no_pidfd);
  EXPECT_EQ(options->log_level, LogLevel::kWarn);
}

TEST(OptionSources, Empty_list_of_users_is_nobody_besides) {
  const OptionTestFile file("[memory]\ncapacity = \"256MiB\"\n[node]\nallow_uids = []\n");
  const auto options = resolve(said({}, {}, file.path()));
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_THAT(options->allow_uids, IsEmpty());
  // A flag takes a list of the file back.
  const OptionTestFile two("[memory]\ncapacity = \"256MiB\"\n[node]\nallow_uids = [7, 8]\n");
  EXPECT_THAT(resolve(said({{"node.allow_uids", ""}}, {}, two.path()))->allow_uids, IsEmpty());
}

// One key, given by ever more sources: each next one wins and is named.
TEST(OptionSources, Flag_wins_over_environment_over_file_over_default) {
  const OptionTestFile good("[memory]\ncapacity = \"256MiB\"\nwait = \"7s\"\n");
  const Texts environment = {{"ORLOP_MEMORY_WAIT", "8s"}};
  const Texts capacity = {{"memory.capacity", "64MiB"}};
  const struct {
    OptionTexts texts;
    MonoNs wait;
    std::string origin;
  } steps[] = {
      {said(capacity), 30 * kNsPerSecond, "default"},
      {said({}, {}, good.path()), 7 * kNsPerSecond, good.path() + ":3"},
      {said({}, environment, good.path()), 8 * kNsPerSecond, "environment ORLOP_MEMORY_WAIT"},
      {said({{"memory.wait", "9s"}}, environment, good.path()), 9 * kNsPerSecond,
       "flag --memory-wait"},
  };
  for (const auto& step : steps) {
    const Settings settings = settle(step.texts);
    EXPECT_THAT(settings.mistakes, IsEmpty());
    EXPECT_EQ(settings.options.memory_wait, step.wait);
    EXPECT_EQ(settings.origin("memory.wait"), step.origin);
  }
}

TEST(OptionSources, File_is_named_by_flag_before_environment) {
  const OptionTestFile one("[memory]\ncapacity = \"64MiB\"\n");
  const OptionTestFile two("[memory]\ncapacity = \"128MiB\"\n");
  const Texts environment = {{"ORLOP_CONFIG", one.path()}};
  EXPECT_EQ(settle(said({}, environment)).file, one.path());
  const Settings settings = settle(said({}, environment, two.path()));
  EXPECT_EQ(settings.file, two.path());
  EXPECT_EQ(settings.options.memory.capacity, 128 * kMiB);
  EXPECT_EQ(settings.origin("memory.capacity"), two.path() + ":2");
}

TEST(OptionSources, Socket_variable_is_that_of_the_clients) {
  const Settings settings = settle(said({}, {{"ORLOP_SOCKET", "/e/s.sock"}}));
  EXPECT_EQ(settings.options.socket, "/e/s.sock");
  EXPECT_EQ(settings.origin("node.socket"), "environment ORLOP_SOCKET");
  const Settings flag =
      settle(said({{"node.socket", "/f/s.sock"}}, {{"ORLOP_SOCKET", "/e/s.sock"}}));
  EXPECT_EQ(flag.options.socket, "/f/s.sock");
}

TEST(OptionSources, Empty_variable_is_not_set) {
  const Settings settings = settle(said({}, {{"ORLOP_MEMORY_CAPACITY", ""}, {"ORLOP_LOG", ""}}));
  EXPECT_THAT(settings.mistakes, IsEmpty());
  EXPECT_THAT(settings.origins, IsEmpty());
}

// The words that a flag or a variable gets; those of files are in option_file_test.cpp.
TEST(OptionSources, Mistakes_of_flags_and_variables_say_what_to_do) {
  const std::string long_path = "/tmp/" + std::string(200, 'x');
  const struct {
    Texts flags, environment;
    std::string words;
  } rows[] = {
      {{{"memory.capacity", "banana"}},
       {},
       "--capacity: 'banana' does not start with a number; write for example 256MiB"},
      {{{"memory.capacity", "64"}},
       {},
       "--capacity: '64' has no unit; write B, KiB, MiB, GiB or TiB behind the number"},
      {{{"memory.capacity", "64GB"}},
       {},
       "--capacity: '64GB' has an ambiguous unit; write KiB, MiB, GiB or TiB (powers of 1024)"},
      {{{"memory.capacity", "1KiB"}},
       {},
       "--capacity: '1KiB' is out of limits; write 4KiB to 15TiB"},
      {{{"memory.capacity", "64TiB"}},
       {},
       "--capacity: '64TiB' is out of limits; write 4KiB to 15TiB"},
      {{{"memory.capacity", ""}},
       {},
       "--capacity: '' does not start with a number; write for example 256MiB"},
      {{{"memory.touch", "maybe"}}, {}, "--touch: 'maybe' is neither on nor off"},
      {{{"memory.huge", "banana"}}, {}, "--huge: 'banana' is not known; write one of: try, off"},
      {{{"memory.numa", "node:x"}},
       {},
       "--numa: 'node:x' is not known; write default, interleave or node:N (N from 0 to 1023)"},
      {{{"memory.wait", "30"}}, {}, "--memory-wait: '30' has no unit; write ns, us, ms, s, m or h"},
      {{{"memory.wait", "3d"}},
       {},
       "--memory-wait: '3d' has an unknown unit; write ns, us, ms, s, m or h"},
      {{{"node.spin", "1s"}}, {}, "--spin: '1s' is out of limits; write 0s to 10ms"},
      {{{"node.allow_uids", "7,vllm"}},
       {},
       "--allow-uids: 'vllm' is no user number; write numbers (`id -u NAME`) and commas: "
       "1000,1001"},
      {{{"node.admin", "0.0.0.0:80"}}, {}, "--admin: admin address \"0.0.0.0:80\" is not loopback"},
      {{{"node.socket", long_path}}, {}, "is 205 bytes long; at most 107: choose a shorter one"},
      {{{"node.socket", "/run/o\n.sock"}}, {}, "--socket: has a control character in it"},
      {{{"node.admin", "unix:/run/\x1b[1m"}}, {}, "--admin: has a control character in it"},
      {{{"eviction.policy", "magic"}}, {}, "--policy: 'magic' is not known; write one of: lru"},
      {{{"log.level", "loud"}},
       {},
       "--log-level: 'loud' is not known; write one of: debug, info, warn, error, off"},
      {{},
       {{"ORLOP_MEMORY_CAPACITY", "64"}},
       "ORLOP_MEMORY_CAPACITY: '64' has no unit; write B, KiB, MiB, GiB or TiB behind the number"},
      {{},
       {{"ORLOP_MEMORY_CAPCITY", "64GiB"}},
       "unknown environment variable ORLOP_MEMORY_CAPCITY; did you mean "
       "\"ORLOP_MEMORY_CAPACITY\"?"},
      {{},
       {{"ORLOP_LOGS", "info"}},
       "unknown environment variable ORLOP_LOGS; did you mean \"ORLOP_LOG\"?"},
      {{},
       {{"ORLOP_FIRST_OF_ITS_KIND", "1"}},
       "unknown environment variable ORLOP_FIRST_OF_ITS_KIND; `orlop config docs` lists what there "
       "is"},
  };
  for (const auto& row : rows) {
    const Settings settings = settle(said(row.flags, row.environment));
    ASSERT_EQ(settings.mistakes.size(), 1u) << row.words;
    EXPECT_THAT(settings.mistakes[0], HasSubstr(row.words));
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(OptionSources, Contradictions_name_both_sides_and_who_said_them) {
  const Texts small = {{"memory.capacity", "64MiB"}};
  const auto with = [&](Texts more) {
    more.merge(Texts(small));
    return more;
  };
  const struct {
    Texts flags, environment;
    std::string words;
  } rows[] = {
      {small,
       {{"ORLOP_MEMORY_PAYLOAD_BYTES", "1GiB"}},
       "memory.capacity = 64MiB (flag --capacity) and memory.payload.bytes = 1GiB (environment "
       "ORLOP_MEMORY_PAYLOAD_BYTES) both say how large the memory is; keep one of the two forms"},
      {{{"memory.payload.bytes", "1GiB"}},
       {},
       "memory.payload.bytes = 1GiB (flag --payload-bytes) needs memory.payload.value_len besides; "
       "set it as well (--payload-value-len)"},
      {{{"memory.payload.bytes", "1GiB"},
        {"memory.payload.value_len", "2MiB"},
        {"memory.max_value_len", "1MiB"}},
       {},
       "memory.payload.value_len = 2MiB (flag --payload-value-len) is longer than "
       "memory.max_value_len = 1MiB (flag --max-value-len); raise memory.max_value_len or leave it "
       "out"},
      {{{"memory.capacity", "16KiB"}}, {}, "less than one slab of 8388608 bytes"},
      {{{"memory.capacity", "16KiB"}},
       {},
       "; now: memory.capacity = 16KiB (flag --capacity), memory.max_value_len = 8MiB (default)"},
      {with({{"eviction.reserve", "65MiB"}}),
       {},
       "eviction.reserve = 65MiB (flag --reserve) is more than the whole value area of 64MiB; "
       "lower "
       "it, or leave it out for 2 % of the value area"},
      {with({{"client.max_pinned", "1GiB"}}), {}, "client.max_pinned = 1GiB (flag --max-pinned)"},
      {with({{"client.max_prepared", "1GiB"}}),
       {},
       "client.max_prepared = 1GiB (flag --max-prepared)"},
      {with({{"node.restart_backoff", "6s"}}),
       {},
       "node.restart_backoff = 6s (flag --restart-backoff) is longer than "
       "node.restart_backoff_most = 5s (default); lower the first or raise the second"},
      {with({{"node.socket", "/a/s"}, {"node.admin", "unix:/a/s"}}),
       {},
       "node.admin = unix:/a/s (flag --admin) and node.socket = /a/s (flag --socket) are the same "
       "path; give each its own"},
  };
  for (const auto& row : rows) {
    const Settings settings = settle(said(row.flags, row.environment));
    ASSERT_EQ(settings.mistakes.size(), 1u) << row.words;
    EXPECT_THAT(settings.mistakes[0], HasSubstr(row.words));
  }
}

TEST(OptionSources, All_mistakes_are_told_at_once_up_to_ten) {
  const OptionTestFile file("[memory]\ncapacity = 64\n");
  Texts environment = {{"ORLOP_LOG", "loud"}};
  const auto three = resolve(said({{"memory.touch", "maybe"}}, environment, file.path()));
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().message,
            file.path() +
                ":2: memory.capacity: '64' has no unit; write B, KiB, MiB, GiB or TiB "
                "behind the number\n"
                "ORLOP_LOG: 'loud' is not known; write one of: debug, info, warn, error, "
                "off\n"
                "--touch: 'maybe' is neither on nor off");
  for (int i = 0; i < 20; ++i) environment["ORLOP_NODE_" + std::to_string(i)] = "x";
  const auto many = resolve(said({}, environment));
  ASSERT_FALSE(many);
  EXPECT_EQ(std::ranges::count(many.error().message, '\n'), 10);
  EXPECT_THAT(many.error().message, HasSubstr("\nand 11 more mistakes"));
}

TEST(OptionSources, Variables_of_others_are_none_of_our_business) {
  for (const char* name :
       {"ORLOP_COPY", "ORLOP_COPY_STREAM_BYTES", "ORLOP_TRACES", "ORLOP_JOBS",
        "ORLOP_EXPLORE_REPLAY", "ORLOP_PORT", "ORLOP_PORT_9464_TCP_ADDR", "ORLOP_SERVICE_HOST",
        "ORLOP_METRICS_SERVICE_PORT_HTTP", "ORLOP_METRICS_PORT"}) {
    EXPECT_THAT(settle(said({}, {{name, "x"}})).mistakes, IsEmpty()) << name;
  }
}

// A variable that some program of ours reads must not stop a node.
TEST(OptionSources, Every_variable_that_the_sources_read_is_known) {
  const std::regex name(R"re("(ORLOP_[A-Z0-9_]+[A-Z0-9])["=: ])re");
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ORLOP_SOURCE_DIR "/src")) {
    const std::string path = entry.path();
    if (!path.ends_with(".cpp") || path.ends_with("_test.cpp")) continue;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator at(source.begin(), source.end(), name), end; at != end; ++at) {
      const std::string found = (*at)[1];
      ++seen;
      EXPECT_TRUE(found == "ORLOP_CONFIG" || find_by_variable(found) != nullptr ||
                  is_foreign_variable(found))
          << path << ": " << found;
    }
  }
  EXPECT_GE(seen, 5);
}

// Found by tests/fuzz/config.cpp.
TEST(OptionSources, Control_characters_of_a_value_are_not_repeated) {
  const Settings settings =
      settle(said({{"memory.capacity", "1\x1b[2J\nGiB"}}, {{"ORLOP_MEMORY_WAIT", "\x7f"}}));
  ASSERT_EQ(settings.mistakes.size(), 2u);
  EXPECT_THAT(settings.mistakes[0], HasSubstr("'?'"));
  EXPECT_THAT(settings.mistakes[1], HasSubstr("'1?[2J?GiB'"));
}

TEST(OptionSources, Every_option_is_a_flag_and_the_last_one_counts) {
  CLI::App app;
  OptionTexts texts;
  add_options(app, texts);
  app.parse(
      std::vector<std::string>{"", "--socket", "512MiB", "--capacity", "256MiB", "--capacity"});
  EXPECT_EQ(texts.by_key["memory.capacity"], "512MiB");
  EXPECT_EQ(settle(texts).mistakes, std::vector<std::string>{"--socket: '' is empty"});
  for (const OptionRow& row : option_rows()) {
    EXPECT_NE(app.get_option_no_throw(row.flag), nullptr) << row.key;
    for (const std::string& part : {row.key, row.variable, row.help, row.default_text()}) {
      EXPECT_THAT(app.help(), HasSubstr(part));
    }
  }
}

}  // namespace
}  // namespace orlop::node
