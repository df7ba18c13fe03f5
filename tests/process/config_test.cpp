// SPDX-License-Identifier: Apache-2.0
// Configuration as a user meets it: orlop config, precedence, the sample file, exit statuses and
// the words about wrong names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ran_program.h"

namespace orlop {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kSample[] = ORLOP_SOURCE_DIR "/packaging/orlop.toml";

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string write(const CommandLine& orlop, const std::string& text) {
  const std::string path = orlop.folder() + "/node.toml";
  std::ofstream(path) << text;
  return path;
}

TEST(Config_docs, Checked_in_files_are_what_the_program_prints) {
  CommandLine orlop;
  const Ran docs = orlop.run({"config", "docs"});
  EXPECT_EQ(docs.status, 0) << docs.err;
  EXPECT_EQ(docs.out, contents(ORLOP_SOURCE_DIR "/docs/operations/configuration.md"));
  const Ran sample = orlop.run({"config", "sample"});
  EXPECT_EQ(sample.status, 0) << sample.err;
  EXPECT_EQ(sample.out, contents(kSample));
}

TEST(Config_sample, Is_good_and_starts_a_node) {
  CommandLine orlop;
  const Ran checked = orlop.run({"config", "check", kSample});
  ASSERT_EQ(checked.status, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("good, 1 options set"));
  const std::string socket = orlop.folder() + "/n.sock";
  const auto node = orlop.start({"serve", "--config", kSample, "--capacity", "64MiB", "--touch",
                                 "off", "--socket", socket, "--admin", "127.0.0.1:0"});
  Ran status;
  for (int i = 0; i < 300 && status.status != 0; ++i) {
    status = orlop.run({"status", "--json", "--socket", socket});
  }
  ASSERT_EQ(status.status, 0) << status.err << node->err();
  const Json found = Json::parse(status.out);
  EXPECT_EQ(found["configuration"]["memory.capacity"], "64MiB");
  EXPECT_EQ(found["configuration"]["memory.touch"], "off");
  node->signal(SIGTERM);
  EXPECT_EQ(node->wait(20 * kNsPerSecond).status, 0);
}

// Three sources set the same key; each level is taken away in turn.
TEST(Config_show, Names_who_gave_each_value) {
  CommandLine orlop({"ORLOP_EVICTION_RESERVE=3MiB", "ORLOP_LOG=warn"});
  const std::string file = write(orlop,
                                 "[memory]\ncapacity = \"64MiB\"\n\n[eviction]\nreserve = "
                                 "\"2MiB\"\n[client]\nmax_pinned = \"1MiB\"\n");
  const Ran ran = orlop.run({"config", "show", "--config", file, "--reserve", "4MiB", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json shown = Json::parse(ran.out);
  const auto value = [&](const char* key) {
    return shown["options"][key]["value"].get<std::string>() + " <- " +
           shown["options"][key]["origin"].get<std::string>();
  };
  EXPECT_EQ(value("eviction.reserve"), "4MiB <- flag --reserve");
  EXPECT_EQ(value("log.level"), "warn <- environment ORLOP_LOG");
  EXPECT_EQ(value("memory.capacity"), "64MiB <- " + file + ":2");
  EXPECT_EQ(value("client.max_pinned"), "1MiB <- " + file + ":7");
  EXPECT_EQ(value("memory.touch"), "on <- default");
  EXPECT_EQ(value("node.socket"), orlop.folder() + "/default.sock <- environment ORLOP_SOCKET");
  EXPECT_EQ(shown["derived"]["eviction.reserve_bytes"], 4 << 20);
  EXPECT_EQ(shown["derived"]["client.max_prepared_bytes"], 16 << 20);

  const Ran without_flag = orlop.run({"config", "show", "--config", file});
  EXPECT_THAT(without_flag.out, HasSubstr("environment ORLOP_EVICTION_RESERVE"));
  EXPECT_THAT(without_flag.out, HasSubstr("one client may reserve for puts (25 % of the value"));
}

TEST(Config_show, Without_a_size_shows_the_defaults_and_says_what_is_missing) {
  CommandLine orlop;
  const Ran ran = orlop.run({"config", "show"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("a node needs memory.capacity besides"));
  EXPECT_EQ(Json::parse(orlop.run({"config", "show", "--json"}).out)["complete"], false);
}

// A path is bytes; JSON is not.
TEST(Config_show, Bytes_that_are_no_text_are_replaced_in_json) {
  CommandLine orlop;
  const Ran ran = orlop.run({"config", "show", "--config", "/nonexistent/\xff", "--json"});
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_EQ(Json::parse(ran.out)["file"], "/nonexistent/\ufffd");
}

TEST(Config_check, Tells_all_mistakes_at_once) {
  CommandLine orlop;
  const std::string file =
      write(orlop, "[memory]\ncapcity = \"64MiB\"\ntouch = 7\n[log]\nlevel = \"loud\"\n");
  const Ran ran = orlop.run({"config", "check", file});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  for (const char* words :
       {":2: unknown key \"memory.capcity\"; did you mean \"memory.capacity\"?",
        ":3: memory.touch wants true or false, not the number 7", ":5: log.level: 'loud' is not"}) {
    EXPECT_THAT(ran.err, HasSubstr(file + words));
  }
  const Json json = Json::parse(orlop.run({"config", "check", file, "--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["mistakes"].size(), 3u);
}

struct Wrong {
  std::vector<std::string> arguments;
  int status;
  std::string words;
};

TEST(Cli_names, Wrong_names_are_told_with_the_nearest) {
  CommandLine orlop;
  for (const Wrong& row : {
           Wrong{{"staus"}, 2, "there is no command 'orlop staus'; did you mean \"status\"?"},
           Wrong{{"fly"}, 2, "there is no command 'orlop fly'; `orlop --help` lists"},
           Wrong{{"config", "shwo"},
                 2,
                 "there is no command 'orlop config shwo'; did you mean \"show\"?"},
           Wrong{{"status", "--jsno"}, 2, "unknown option --jsno; did you mean \"--json\"?"},
           Wrong{{"demo", "--wrokers=2"}, 2, "unknown option --wrokers; did you mean"},
           Wrong{{"version", "--json", "now"}, 2, "unexpected argument 'now'"},
           Wrong{{"config", "show", "--capcity", "1GiB"},
                 2,
                 "unknown option --capcity; did you mean \"--capacity\"?"},
           Wrong{{"serve", "--capcity", "1GiB"},
                 2,
                 "unknown option --capcity; did you mean \"--capacity\"?"},
           Wrong{{"--hepl"}, 2, "unknown option --hepl; did you mean \"--help\"?"},
       }) {
    const Ran ran = orlop.run(row.arguments);
    EXPECT_EQ(ran.status, row.status) << row.words;
    EXPECT_THAT(ran.err, StartsWith("orlop"));
    EXPECT_THAT(ran.err, HasSubstr(row.words));
  }
}

TEST(Cli_serve, Exit_statuses_are_those_of_the_table) {
  CommandLine orlop({"ORLOP_MEMORY_TOUHC=on"});
  const Ran variable = orlop.run({"serve", "--capacity", "64MiB"});
  EXPECT_EQ(variable.status, 2);
  EXPECT_THAT(variable.err, HasSubstr("unknown environment variable ORLOP_MEMORY_TOUHC; did you "
                                      "mean \"ORLOP_MEMORY_TOUCH\"?"));
  CommandLine plain;
  for (const Wrong& row : {
           Wrong{{}, 2, "memory.capacity is not given"},
           Wrong{{"--capacity", "64"}, 2, "--capacity: '64' has no unit"},
           Wrong{{"--capacity", "16KiB"}, 2, "less than one slab"},
           Wrong{{"--capacity", "64MiB", "--config", "/etc"}, 2, "is a folder"},
           Wrong{{"--capacity", "10TiB"}, 4, "memory does not fit"},
           Wrong{
               {"--capacity", "64MiB", "--socket", "/nonexistent/folder/s"}, 5, "make the folder"},
       }) {
    std::vector<std::string> arguments = {"serve"};
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const Ran ran = plain.run(arguments);
    EXPECT_EQ(ran.status, row.status) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(row.words));
  }
}

}  // namespace
}  // namespace orlop
