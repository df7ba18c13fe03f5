// SPDX-License-Identifier: Apache-2.0
// The program `orlop` as a user meets it: outputs, exit statuses, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "platform/clock.h"
#include "ran_program.h"

namespace orlop {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

constexpr MonoNs kDemoWait = 150 * kNsPerSecond;

TEST(Cli_version, Text_and_json_agree) {
  CommandLine orlop;
  const Ran text = orlop.run({"version"});
  const Ran json = orlop.run({"version", "--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  ASSERT_EQ(json.status, 0) << json.err;
  const Json object = Json::parse(json.out);
  for (const char* field : {"version", "commit", "abi", "compiler", "copy_kind"}) {
    ASSERT_TRUE(object.contains(field)) << field;
  }
  EXPECT_THAT(text.out, HasSubstr(object["version"].get<std::string>()));
  EXPECT_THAT(text.out, HasSubstr(object["copy_kind"].get<std::string>()));
}

TEST(Cli_usage, Help_is_no_error_and_lists_the_commands) {
  CommandLine orlop;
  const Ran ran = orlop.run({"--help"});
  EXPECT_EQ(ran.status, 0);
  for (const char* name : {"serve", "demo", "status", "replay", "version"}) {
    EXPECT_THAT(ran.out, HasSubstr(name));
  }
  EXPECT_EQ(ran.out.find("demo-worker"), std::string::npos);
}

TEST(Cli_usage, Wrong_arguments_end_with_2_and_say_what_is_wrong) {
  CommandLine orlop;
  struct Case {
    std::vector<std::string> arguments;
    const char* word;
  };
  for (const Case& c : {
           Case{{}, "subcommand"},
           Case{{"fly"}, "fly"},
           Case{{"version", "--colour"}, "--colour"},
           Case{{"demo", "--requests", "many"}, "--requests"},
           Case{{"demo", "--requests", "1"}, "--requests"},
           Case{{"demo", "--workers", "0"}, "--workers"},
           Case{{"demo", "--capacity", "1MiB"}, "--capacity"},
           Case{{"demo", "--capacity", "256MB"}, "256MB"},
           Case{{"replay"}, "FILE"},
           Case{{"replay", "x", "--policy", "magic"}, "magic"},
           Case{{"replay", "x", "--value-bytes", "8"}, "--value-bytes"},
           Case{{"replay", "/nonexistent/x.jsonl"}, "/nonexistent/x.jsonl"},
           Case{{"serve", "--capacity", "lots"}, "lots"},
           Case{{"serve", "--colour"}, "--colour"},
       }) {
    const Ran ran = orlop.run(c.arguments);
    EXPECT_EQ(ran.status, 2) << ::testing::PrintToString(c.arguments);
    EXPECT_THAT(ran.err + ran.out, HasSubstr(c.word));
  }
  EXPECT_THAT(orlop.left_behind(), IsEmpty());
}

TEST(Cli_status, Without_a_node_ends_with_3_and_helps) {
  CommandLine orlop;
  const Ran ran = orlop.run({"status"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("no node runs at " + orlop.folder() + "/default.sock"));
  EXPECT_THAT(ran.err, HasSubstr("orlop serve"));
  EXPECT_EQ(ran.out, "");
}

TEST(Cli_status, A_stale_file_is_no_node) {
  CommandLine orlop;
  std::ofstream(orlop.folder() + "/default.sock.json")
      << R"({"socket": "x", "admin": "127.0.0.1:1", "keeper_pid": 4194305, "server_pid": 4194306,)"
      << R"( "restarts": 0, "segment_id": "1", "incarnation": "1"})";
  const Ran ran = orlop.run({"status", "--json"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("has died"));
}

TEST(Cli_serve, Status_shows_the_node_and_a_second_one_is_refused) {
  CommandLine orlop;
  const std::string socket = orlop.folder() + "/n.sock";
  for (const std::string& admin :
       {std::string("127.0.0.1:0"), "unix:" + orlop.folder() + "/admin.sock"}) {
    const auto node =
        orlop.start({"serve", "--capacity", "64MiB", "--socket", socket, "--admin", admin});
    Ran text;
    // Refused until it serves: at most as long as a start takes.
    for (int i = 0; i < 300 && text.status != 0; ++i)
      text = orlop.run({"status", "--socket", socket});
    ASSERT_EQ(text.status, 0) << text.err << node->err();
    EXPECT_THAT(text.out, HasSubstr("ready"));
    EXPECT_THAT(text.out, HasSubstr("64.0 MiB"));
    EXPECT_EQ(text.out.find('\033'), std::string::npos) << "colour without a terminal";
    const Ran json = orlop.run({"status", "--json", "--socket", socket});
    ASSERT_EQ(json.status, 0) << json.err;
    EXPECT_EQ(Json::parse(json.out)["state"], "ready");
    const Ran second = orlop.run({"serve", "--capacity", "64MiB", "--socket", socket});
    EXPECT_EQ(second.status, 4) << second.err;
    node->signal(SIGTERM);
    const Ran ended = node->wait(20 * kNsPerSecond);
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
  const Ran gone = orlop.run({"status", "--socket", socket});
  EXPECT_EQ(gone.status, 3);
}

TEST(Cli_demo, Few_requests_survive_a_killed_server) {
  CommandLine orlop;
  const Ran ran = orlop.run(
      {"demo", "--requests", "120", "--capacity", "64MiB", "--seed", "7", "--json"}, kDemoWait);
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Json found = Json::parse(ran.out);
  EXPECT_EQ(found["ok"], true);
  EXPECT_EQ(found["requests"], 120);
  EXPECT_EQ(found["wrong_bytes"], 0);
  EXPECT_EQ(found["lost"], 0);
  EXPECT_GT(found["read_back"].get<int>(), 0);
  EXPECT_GT(found["outage_hit_pages"].get<int>(), 0);
  EXPECT_GT(found["cross_worker_pages"].get<int>(), 0);
  EXPECT_GT(found["hit_rate"].get<double>(), 0.3);
  EXPECT_GT(found["restart_ms"].get<double>(), 0);
  EXPECT_EQ(found["committed_before_kill"].get<int>(), found["evicted_before_kill"].get<int>() +
                                                           found["read_back"].get<int>() +
                                                           found["evicted_after_kill"].get<int>());
  EXPECT_THAT(orlop.left_behind(), IsEmpty());
  EXPECT_THAT(orlop.living_processes(), IsEmpty());
}

TEST(Cli_demo, Text_has_a_table_and_a_closing_line) {
  CommandLine orlop;
  const Ran ran =
      orlop.run({"demo", "--requests", "20", "--capacity", "64MiB", "--workers", "1"}, kDemoWait);
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  for (const char* words : {"hit rate", "wrong bytes", "longest gap in hits", "bit for bit"}) {
    EXPECT_THAT(ran.out, HasSubstr(words));
  }
  EXPECT_THAT(ran.err, HasSubstr("server killed with SIGKILL"));
  EXPECT_EQ(ran.out.find('\033'), std::string::npos);
}

// At the start, and while workers are at work: keeper, server, two workers
// (the demo's own command line does not name the folder).
TEST(Cli_demo, Interrupt_stops_everything) {
  for (const std::size_t processes : {std::size_t{2}, std::size_t{4}}) {
    CommandLine orlop;
    const auto demo = orlop.start({"demo", "--requests", "1000000", "--capacity", "64MiB"});
    ASSERT_TRUE(demo->wait_until([&] { return orlop.living_processes().size() >= processes; },
                                 60 * kNsPerSecond))
        << demo->err();
    demo->signal(SIGINT);
    const Ran ran = demo->wait(60 * kNsPerSecond);
    EXPECT_EQ(ran.status, 130) << ran.err;
    EXPECT_THAT(orlop.left_behind(), IsEmpty());
    EXPECT_THAT(orlop.living_processes(), IsEmpty());
  }
}

// Killed outright it cannot tidy up its folder, but no process stays.
TEST(Cli_demo, Kill_of_the_demo_leaves_no_process) {
  CommandLine orlop;
  const auto demo = orlop.start({"demo", "--requests", "1000000", "--capacity", "64MiB"});
  ASSERT_TRUE(
      demo->wait_until([&] { return orlop.living_processes().size() >= 4; }, 60 * kNsPerSecond))
      << demo->err();
  demo->signal(SIGKILL);
  EXPECT_EQ(demo->wait(60 * kNsPerSecond).status, 1000 + SIGKILL);
  const MonoNs deadline = monotonic_ns() + 30 * kNsPerSecond;
  while (!orlop.living_processes().empty() && monotonic_ns() < deadline) ::usleep(10'000);
  EXPECT_THAT(orlop.living_processes(), IsEmpty());
}

TEST(Cli_demo, Memory_that_does_not_fit_is_refused_with_the_nodes_words) {
  CommandLine orlop;
  const Ran ran = orlop.run({"demo", "--capacity", "64TiB"});
  EXPECT_EQ(ran.status, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("did not start"));
  EXPECT_THAT(orlop.left_behind(), IsEmpty());
}

// Two users, a shared first page: hits can be counted by hand.
constexpr char kSmallTrace[] =
    "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0, 1, 2]}\n"
    "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0, 3]}\n"
    "{\"timestamp\": 2, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0, 1, 2, 4]}\n"
    "{\"timestamp\": 3, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [5]}\n"
    "{\"timestamp\": 4, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0, 3]}\n";

TEST(Cli_replay, Hits_of_a_small_trace_are_exact) {
  CommandLine orlop;
  const std::string file = orlop.folder() + "/small.jsonl";
  std::ofstream(file) << kSmallTrace;
  const Ran ran = orlop.run({"replay", file, "--capacity-pages", "100", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Json found = Json::parse(ran.out);
  EXPECT_EQ(found["requests"], 5);
  EXPECT_EQ(found["pages"], 12);
  EXPECT_EQ(found["hit_pages"], 6);  // 0; 0 1 2; 0 3
  EXPECT_EQ(found["mismatches"], 0);
  EXPECT_EQ(found["verified_bytes"], 6 * 4096);
  EXPECT_EQ(found["touches_lost"], 0);
  EXPECT_EQ(found["policy"], "lru");
  for (const char* times : {"get_us", "put_us"}) {
    for (const char* part : {"p50", "p95", "p99"}) EXPECT_TRUE(found[times][part].is_number());
  }
  EXPECT_TRUE(found["seconds"].is_number());
}

TEST(Cli_replay, Capacity_in_pages_evicts_the_least_recently_used) {
  CommandLine orlop;
  const std::string file = orlop.folder() + "/cycle.jsonl";
  std::ofstream trace(file);
  // 40 pages in turn through 20 resident ones: never a hit; the last ten again: all hits.
  for (int round = 0; round < 3; ++round) {
    for (int page = 0; page < 40; ++page) trace << "{\"hash_ids\": [" << page << "]}\n";
  }
  for (int page = 30; page < 40; ++page) trace << "{\"hash_ids\": [" << page << "]}\n";
  trace.close();
  const Ran ran = orlop.run({"replay", file, "--capacity-pages", "20", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Json found = Json::parse(ran.out);
  EXPECT_EQ(found["hit_pages"], 10);
  EXPECT_EQ(found["evicted"].get<int>(), 120 - 20);
}

TEST(Cli_replay, Several_workers_share_the_trace_and_limit_cuts_it) {
  CommandLine orlop;
  const std::string file = orlop.folder() + "/small.jsonl";
  std::ofstream(file) << kSmallTrace;
  const Ran ran = orlop.run({"replay", file, "--workers", "2", "--capacity-pages", "100", "--limit",
                             "4", "--value-bytes", "100KiB", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const Json found = Json::parse(ran.out);
  EXPECT_EQ(found["requests"], 4);
  EXPECT_EQ(found["pages"], 10);
  EXPECT_EQ(found["mismatches"], 0);
}

TEST(Cli_replay, Malformed_line_is_named) {
  CommandLine orlop;
  const std::string file = orlop.folder() + "/bad.jsonl";
  std::ofstream(file) << "{\"hash_ids\": [1]}\n{\"hash_ids\": 7}\n";
  const Ran ran = orlop.run({"replay", file});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr(file + ":2: "));
}

}  // namespace
}  // namespace orlop
