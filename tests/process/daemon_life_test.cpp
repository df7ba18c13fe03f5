// SPDX-License-Identifier: Apache-2.0
// The daemon's own life: start, restarts, stop, second daemons, stale sockets, configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon.h"
#include "node/exit_status.h"
#include "raw_client.h"

namespace orlop::process_test {
namespace {

using ::testing::HasSubstr;

std::vector<KeyId> keys(std::uint64_t first, std::size_t count) {
  std::vector<KeyId> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({first + i, 7});
  return out;
}

TEST(DaemonLife, Server_killed_comes_back_with_the_same_segment) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  const auto before = daemon.status();
  daemon.kill_server();
  ASSERT_TRUE(daemon.wait_serving(1)) << daemon.log();
  const auto after = daemon.status();
  EXPECT_EQ(after.segment, before.segment);
  EXPECT_NE(after.incarnation, before.incarnation);
  EXPECT_NE(after.server_pid, before.server_pid);
  EXPECT_EQ(after.admin, before.admin);  // the address outlives the server
  EXPECT_EQ(daemon.metric("orlop_server_restarts_total"), 1);
}

TEST(DaemonLife, Committed_pages_outlive_servers) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto client = RawClient::attach(daemon.socket());
  ASSERT_TRUE(client) << client.error().message;
  const NamespaceRow row = (*client)->open_namespace(4096);
  (*client)->put(row, keys(1, 100));
  for (std::uint32_t restart = 1; restart <= 3; ++restart) {
    daemon.kill_server();
    ASSERT_TRUE(daemon.wait_serving(restart)) << daemon.log();
    const auto resumed = (*client)->resume_after_restart(daemon.socket());
    ASSERT_TRUE(resumed) << resumed.error().message;
    (*client)->ping();
    EXPECT_EQ(daemon.metric("orlop_slots{state=\"committed\"}"), 100);
  }
  const auto again = (*client)->put_start(row, keys(1, 100));
  for (const Outcome outcome : again.outcomes) EXPECT_EQ(outcome, Outcome::kExists);
}

TEST(DaemonLife, Put_under_way_survives_a_restart_and_commits) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto client = RawClient::attach(daemon.socket());
  ASSERT_TRUE(client) << client.error().message;
  const NamespaceRow row = (*client)->open_namespace(4096);
  const auto started = (*client)->put_start(row, keys(1, 8));
  daemon.kill_server();
  ASSERT_TRUE((*client)->resume_after_restart(daemon.socket()));
  for (const Outcome outcome : (*client)->commit(started)) EXPECT_EQ(outcome, Outcome::kStored);
  EXPECT_EQ(daemon.metric("orlop_slots{state=\"committed\"}"), 8);
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 0);
}

TEST(DaemonLife, Graceful_stop_ends_with_0_and_leaves_nothing) {
  for (const int signal_number : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    Daemon daemon(folder.path());
    ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
    auto client = RawClient::attach(daemon.socket());
    ASSERT_TRUE(client) << client.error().message;
    ::kill(daemon.keeper_pid(), signal_number);
    const ExitStatus ended = daemon.wait_exit();
    EXPECT_FALSE(ended.by_signal);
    EXPECT_EQ(ended.value, 0) << daemon.log();
    EXPECT_FALSE(std::filesystem::exists(daemon.socket()));
    EXPECT_FALSE(std::filesystem::exists(node::status_file_path(daemon.socket())));
    EXPECT_TRUE(wait_hang_up((*client)->socket()));
    EXPECT_TRUE(wait_hang_up((*client)->keeper_pipe()));
  }
}

TEST(DaemonLife, Second_daemon_is_refused_and_names_the_owner) {
  const TemporaryFolder folder;
  const TemporaryFolder other_log;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  Daemon second(other_log.path(), {"--socket", daemon.socket()});
  EXPECT_EQ(second.wait_exit().value, node::kStatusRefused);
  EXPECT_THAT(second.log(), HasSubstr(std::to_string(daemon.keeper_pid())));
  EXPECT_TRUE(RawClient::attach(daemon.socket()));
}

TEST(DaemonLife, Killed_keeper_takes_its_server_along_and_its_socket_is_replaced) {
  const TemporaryFolder folder;
  SegmentId segment;
  {
    Daemon daemon(folder.path());
    ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
    auto client = RawClient::attach(daemon.socket());
    ASSERT_TRUE(client) << client.error().message;
    segment = daemon.status().segment;
    const auto server = static_cast<pid_t>(daemon.status().server_pid);
    daemon.kill_keeper();
    daemon.wait_exit();
    EXPECT_TRUE(eventually([&] { return ::kill(server, 0) != 0; }));
    EXPECT_TRUE(wait_hang_up((*client)->keeper_pipe()));  // the library lets go of the segment
    EXPECT_TRUE(std::filesystem::exists(daemon.socket()));
  }
  Daemon next(folder.path());
  ASSERT_TRUE(next.wait_serving()) << next.log();
  EXPECT_NE(next.status().segment, segment);
  EXPECT_TRUE(RawClient::attach(next.socket()));
}

TEST(DaemonLife, Admin_endpoints_answer) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  const std::string admin = daemon.status().admin;
  EXPECT_EQ(http_get(admin, "/healthz").value_or("-"), "ok\n");
  EXPECT_EQ(http_get(admin, "/readyz").value_or("-"), "ready\n");
  EXPECT_THAT(http_get(admin, "/status.json").value_or("-"),
              HasSubstr("\"segment_id\": \"" + std::to_string(daemon.status().segment.value)));
  EXPECT_FALSE(http_get(admin, "/nothing"));
}

TEST(DaemonLife, Admin_may_be_off) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path(), {"--admin", "off"});
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  EXPECT_EQ(daemon.status().admin, "off");
  EXPECT_TRUE(RawClient::attach(daemon.socket()));
}

TEST(DaemonLife, Bad_configuration_ends_with_a_reason) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/bad.toml") << "[memory]\ncapcity = \"64MiB\"\n";
  const struct {
    std::vector<std::string> flags;
    int status;
    const char* said;
  } cases[] = {
      {{"--capacity", "10TiB"}, node::kStatusRefused, "memory does not fit"},
      {{"--capacity", "lots"}, node::kStatusUsage, "--capacity"},
      {{"--capacity", "16KiB"}, node::kStatusUsage, "less than one slab"},
      {{"--policy", "magic"}, node::kStatusUsage, "write one of: lru"},
      {{"--admin", "0.0.0.0:80"}, node::kStatusUsage, "loopback"},
      {{"--socket", "/nonexistent/folder/s"}, node::kStatusFailed, "make the folder"},
      {{"--config", folder.path() + "/bad.toml"},
       node::kStatusUsage,
       "did you mean \"memory.capacity\""},
      {{"--config", folder.path() + "/none.toml"}, node::kStatusUsage, "none.toml"},
      {{"--socket", "/tmp/" + std::string(200, 'x')}, node::kStatusUsage, "107"},
      {{"--capcity"}, node::kStatusUsage, "did you mean \"--capacity\"?"},
  };
  for (const auto& one : cases) {
    const TemporaryFolder own;
    Daemon daemon(own.path(), one.flags);
    EXPECT_EQ(daemon.wait_exit().value, one.status) << one.flags[0] << ": " << daemon.log();
    EXPECT_THAT(daemon.log(), HasSubstr(one.said)) << one.flags[0];
  }
}

}  // namespace
}  // namespace orlop::process_test
