// SPDX-License-Identifier: Apache-2.0
// What a node tells about itself: metrics, status, status file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "node/metrics.h"
#include "node/status_file.h"
#include "node/status_json.h"

namespace orlop::node {
namespace {

using ::testing::HasSubstr;

runtime::NodeSnapshot sample() {
  runtime::NodeSnapshot s;
  s.segment = SegmentId{~std::uint64_t{0}};
  s.taken = 20 * kNsPerSecond;
  s.keeper_started = 5 * kNsPerSecond;
  s.server_started = 10 * kNsPerSecond;
  s.restarts = 2;
  s.upgrade.rolled_back = 3;
  for (int i = 0; i < segment::kSlotStateCount; ++i) s.gauges.slots_by_state[i] = 10 + i;
  s.gauges.total_slots = 60;
  s.counters.outcomes[static_cast<int>(Outcome::kStored)] = 5;
  s.loop.requests[static_cast<int>(protocol::RequestCode::kPutStart)] = 9;
  s.loop.refused[static_cast<int>(ErrorCode::kAbiMismatch)] = 1;
  s.loop.steps.record(1000);
  s.traffic.gets = 11;
  s.traffic.misses[static_cast<int>(MissReason::kNotFound)] = 3;
  s.traffic.get.record(200);
  s.counters.missed[static_cast<int>(protocol::MissCause::kEvicted)] = 2;
  s.counters.missed_evicted_age = 14 * kNsPerSecond;
  runtime::ClientInfo client;
  client.gauges.client = ClientId{3};
  client.gauges.name = "bad\"name\xff";
  client.gauges.pinned_bytes = 4096;
  client.gauges.traffic.keys_hit = 6;
  client.gauges.oldest_read_plan_age = 2 * kNsPerSecond;
  s.clients.push_back(client);
  s.namespaces.push_back({.row = NamespaceRow{0},
                          .index = NamespaceIndex{1},
                          .value_len = 4096,
                          .text = "{\"engine\":\"x\",\"model\":\"m\"}",
                          .slots = 7,
                          .readable_bytes = 28'672,
                          .traffic = {.keys_offered = 9, .last_put = 15 * kNsPerSecond}});
  return s;
}

TEST(Metrics, Names_have_the_prefix_help_and_are_unique) {
  std::istringstream lines(metrics_text(sample(), {}));
  std::set<std::string> helped;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(helped.insert(name).second) << name;
      EXPECT_TRUE(name.starts_with("orlop_")) << name;
    } else if (line.starts_with("# TYPE ") && line.ends_with(" counter")) {
      EXPECT_NE(line.find("_total counter"), std::string::npos) << line;
    }
  }
  EXPECT_GT(helped.size(), 50u);
}

TEST(Metrics, Every_name_is_documented) {
  std::ifstream page(ORLOP_SOURCE_DIR "/docs/operations/metrics.md");
  ASSERT_TRUE(page);
  std::ostringstream text;
  text << page.rdbuf();
  std::istringstream lines(metrics_text(sample(), {}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# HELP ")) continue;
    const std::size_t end = line.find(' ', 7);
    EXPECT_THAT(text.str(), HasSubstr("| `" + line.substr(7, end - 7) + "` |"));
    EXPECT_THAT(text.str(), HasSubstr("| " + line.substr(end + 1) + " |"));
  }
}

TEST(Metrics, Values_are_told) {
  const std::string text = metrics_text(sample(), {1000, 2000});
  for (const char* line : {"orlop_slots{state=\"committed\"} 13",
                           "orlop_slots_assigned 60",
                           "orlop_uptime_seconds 15",
                           "orlop_server_uptime_seconds 10",
                           "orlop_server_restarts_total 2",
                           "orlop_upgrades_total{outcome=\"rolled_back\"} 3",
                           "orlop_key_outcomes_total{outcome=\"stored\"} 5",
                           "orlop_requests_total{request=\"put_start\"} 9",
                           "orlop_refused_total{reason=\"abi_mismatch\"} 1",
                           "orlop_process_private_bytes{process=\"keeper\"} 2000",
                           "orlop_step_seconds_count 1",
                           "orlop_step_seconds_bucket{le=\"5.12e-07\"} 0",
                           "orlop_step_seconds_bucket{le=\"1.024e-06\"} 1",
                           "orlop_step_seconds_bucket{le=\"+Inf\"} 1",
                           "orlop_gets_total 11",
                           "orlop_get_misses_total{reason=\"not_found\"} 3",
                           "orlop_missed_keys_total{cause=\"evicted\"} 2",
                           "orlop_missed_evicted_age_seconds_total 14",
                           "orlop_get_seconds_count 1",
                           "orlop_pinned_bytes 4096",
                           "orlop_oldest_read_plan_seconds 2",
                           "orlop_namespace_readable_bytes{namespace=\"0\",model=\"m\"} 28672",
                           "orlop_namespace_keys_offered_total{namespace=\"0\",model=\"m\"} 9"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// Clients write their buckets themselves. Prometheus takes a falling bucket for a broken histogram.
TEST(Metrics, Buckets_of_a_histogram_never_fall_whatever_clients_count) {
  runtime::NodeSnapshot s = sample();
  s.traffic.get = {};
  s.traffic.get.counts[2] = ~std::uint64_t{0};
  s.traffic.get.counts[3] = 7;
  const std::string text = metrics_text(s, {});
  // 2^64 - 1 as a double.
  EXPECT_THAT(text, HasSubstr("orlop_get_seconds_bucket{le=\"1.024e-06\"} 18446744073709551615"));
  EXPECT_THAT(text, HasSubstr("orlop_get_seconds_bucket{le=\"+Inf\"} 18446744073709551615"));
  EXPECT_THAT(text, HasSubstr("orlop_get_seconds_count 18446744073709551615"));
}

TEST(StatusJson, Is_json_whatever_the_names) {
  const auto json =
      nlohmann::json::parse(status_json(sample(), {}, {{"memory.capacity", "1 GiB"}}));
  EXPECT_EQ(json["segment_id"], "18446744073709551615");
  EXPECT_EQ(json["memory"]["slots"]["free"], 10);
  EXPECT_EQ(json["clients"][0]["pinned_bytes"], 4096);
  EXPECT_EQ(json["namespaces"][0]["descriptor"]["engine"], "x");
  EXPECT_EQ(json["configuration"]["memory.capacity"], "1 GiB");
  EXPECT_EQ(json["counters"]["refused"]["abi_mismatch"], 1);
  EXPECT_EQ(json["pinned_bytes"], 4096);
  EXPECT_EQ(json["oldest_read_plan_seconds"], 2);
  EXPECT_EQ(json["clients"][0]["keys_hit"], 6);
  EXPECT_EQ(json["clients"][0]["get_latency"]["count"], 0);
  EXPECT_EQ(json["step_latency"]["count"], 1);
  EXPECT_GE(json["step_latency"]["p50_us"], 0.5);
  EXPECT_LE(json["step_latency"]["p50_us"], 2.0);
  EXPECT_EQ(json["traffic"]["gets"], 11);
  EXPECT_EQ(json["traffic"]["misses"]["not_found"], 3);
  EXPECT_FALSE(json["traffic"]["misses"].contains("none"));
  EXPECT_EQ(json["traffic"]["missed"]["evicted"], 2);
  EXPECT_EQ(json["traffic"]["missed_evicted_age_seconds"], 7);
  EXPECT_EQ(json["namespaces"][0]["readable_bytes"], 28'672);
  EXPECT_EQ(json["namespaces"][0]["keys_offered"], 9);
  EXPECT_EQ(json["namespaces"][0]["seconds_since_put"], 5);
  EXPECT_TRUE(json["namespaces"][0]["seconds_since_hit"].is_null());
}

TEST(StatusFile, Round_trip_and_absence) {
  const std::string socket = ::testing::TempDir() + "status_" + std::to_string(::getpid());
  EXPECT_EQ(read_status_file(socket).error().code, ErrorCode::kNoNode);
  const StatusFile written{socket,        "127.0.0.1:1", 10, 11, 3, SegmentId{~std::uint64_t{0}},
                           Incarnation{7}};
  ASSERT_TRUE(write_status_file(written));
  const auto read = read_status_file(socket);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->segment, written.segment);
  EXPECT_EQ(read->admin, "127.0.0.1:1");
  EXPECT_EQ(read->restarts, 3u);
  std::ofstream(status_file_path(socket)) << "{\"socket\":";
  EXPECT_EQ(read_status_file(socket).error().code, ErrorCode::kCorrupt);
  remove_status_file(socket);
  EXPECT_EQ(read_status_file(socket).error().code, ErrorCode::kNoNode);
}

}  // namespace
}  // namespace orlop::node
