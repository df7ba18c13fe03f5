// SPDX-License-Identifier: Apache-2.0
// SIGHUP: another program on the same memory, and the way back, with clients at work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon.h"
#include "raw_client.h"
#include "workload.h"

namespace orlop::process_test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr auto kLong = Milliseconds{20'000};

// A daemon whose program is a symbolic link in its folder, so that it can be pointed elsewhere.
class Upgrade : public ::testing::Test {
 protected:
  void start(std::vector<std::string> flags = {}, std::vector<std::string> environment = {}) {
    point_at(ORLOPD_PATH);
    DaemonStart how;
    how.program = program();
    how.environment = std::move(environment);
    daemon_.emplace(folder_.path(), std::move(flags), std::move(how));
    ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  }
  std::string program() const { return folder_.path() + "/orlopd"; }
  void point_at(const std::string& target) {
    const std::string fresh = program() + ".new";
    fs::create_symlink(target, fresh);
    fs::rename(fresh, program());
  }
  // Asks again while a server is being replaced, which may cut an answer.
  nlohmann::json status() {
    nlohmann::json out;
    EXPECT_TRUE(eventually([&] {
      const auto text = http_get(daemon_->status().admin, "/status.json");
      if (text) out = nlohmann::json::parse(*text, nullptr, false);
      return out.is_object();
    })) << daemon_->log();
    return out;
  }
  // HUP, and until its outcome is told.
  nlohmann::json upgrade(const char* counter) {
    const auto before = status()["last_upgrade"][counter].get<int>();
    daemon_->hang_up();
    EXPECT_TRUE(eventually([&] { return status()["last_upgrade"][counter].get<int>() > before; }))
        << daemon_->log();
    return status()["last_upgrade"];
  }
  static ino_t running(std::uint32_t pid) {
    struct stat found{};
    ::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &found);
    return found.st_ino;
  }

  TemporaryFolder folder_;
  std::optional<Daemon> daemon_;
};

TEST_F(Upgrade, Unchanged_program_is_a_restart_that_keeps_everything) {
  start();
  const auto before = daemon_->status();
  Client client({.socket = daemon_->socket()});
  ASSERT_TRUE(client.wait_ready(kLong));
  const auto ns = client.open_namespace(workload_namespace());
  const auto keys = page_keys("kept-", 20);
  ASSERT_TRUE(put_pages(client, *ns, keys));
  auto handle = client.get_start(*ns, views_of(keys));
  auto plan = client.get_transfer(*handle);
  ASSERT_EQ(plan->size(), 20u);
  Workload workload(daemon_->socket());
  ASSERT_TRUE(eventually([&] { return workload.hits() > 100; }));

  const auto last = upgrade("succeeded");
  EXPECT_EQ(last["outcome"], "succeeded");
  EXPECT_EQ(last["from"], last["to"]);
  const auto after = daemon_->status();
  EXPECT_EQ(after.segment, before.segment);
  EXPECT_NE(after.server_pid, before.server_pid);
  EXPECT_EQ(after.keeper_pid, before.keeper_pid);
  const std::uint64_t hits = workload.hits();
  const std::uint64_t stored = workload.stored();
  EXPECT_TRUE(eventually([&] { return workload.hits() > hits + 100; }));
  EXPECT_TRUE(eventually([&] { return workload.stored() > stored + 10; }));
  workload.stop();
  EXPECT_EQ(workload.wrong(), 0u);
  for (std::size_t i = 0; i < plan->size(); ++i)
    EXPECT_TRUE(std::ranges::equal(plan->view(i), page_of(keys[i])));
}

TEST_F(Upgrade, New_program_runs_the_server_and_is_the_good_one_from_then_on) {
  fs::copy_file(ORLOPD_PATH, folder_.path() + "/first");
  fs::copy_file(ORLOPD_PATH, folder_.path() + "/second");
  point_at(folder_.path() + "/first");
  DaemonStart how;
  how.program = program();
  daemon_.emplace(folder_.path(), std::vector<std::string>{}, how);
  ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  const ino_t first = running(daemon_->status().server_pid);
  point_at(folder_.path() + "/second");
  fs::remove(folder_.path() + "/first");
  upgrade("succeeded");
  const ino_t second = running(daemon_->status().server_pid);
  EXPECT_NE(second, first);
  EXPECT_EQ(running(daemon_->status().keeper_pid), first);  // it stays what it is
  const auto restarts = daemon_->status().restarts;
  fs::remove(folder_.path() + "/second");
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(restarts + 1)) << daemon_->log();
  EXPECT_EQ(running(daemon_->status().server_pid), second);  // from the kept descriptor
}

TEST_F(Upgrade, Program_that_fails_its_check_leaves_the_server_alone) {
  const std::string script = folder_.path() + "/script";
  std::ofstream(script) << "#!/bin/sh\necho orlop-preflight 1; echo abi 1; echo version 2\n";
  fs::permissions(script, fs::perms::owner_all);
  const std::string text = folder_.path() + "/text";
  std::ofstream(text) << "no program\n";
  const struct {
    std::string target, behaviour, reason;
  } cases[] = {
      {"/bin/false", "", "preflight ended with exit code 1"},
      {script, "", "preflight ended with"},
      {text, "", "not executable"},
      {folder_.path(), "", "no regular file"},
      {folder_.path() + "/nothing", "", "ENOENT"},
      {ORLOP_OTHER_PROGRAM_PATH, "other_abi", "ABI"},
      {ORLOP_OTHER_PROGRAM_PATH, "garbage", "first line"},
  };
  for (const auto& one : cases) {
    daemon_.reset();
    fs::remove(program());
    start({}, {"ORLOP_TEST_PROGRAM=" + one.behaviour});
    const auto before = daemon_->status();
    point_at(one.target);
    const auto last = upgrade("refused");
    EXPECT_EQ(last["outcome"], "refused") << one.target;
    EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr(one.reason)) << one.target;
    EXPECT_EQ(daemon_->status().server_pid, before.server_pid) << one.target;
    EXPECT_EQ(daemon_->status().restarts, 0u) << one.target;
  }
}

TEST_F(Upgrade, Program_that_does_not_serve_is_followed_by_the_one_before) {
  for (const char* behaviour : {"exits", "condemns", "configuration", "hangs"}) {
    daemon_.reset();
    fs::remove(program());
    start({"--start-limit", "2s"}, {std::string("ORLOP_TEST_PROGRAM=") + behaviour});
    const auto before = daemon_->status();
    const ino_t good = running(before.server_pid);
    Workload workload(daemon_->socket());
    ASSERT_TRUE(eventually([&] { return workload.hits() > 100; }));
    point_at(ORLOP_OTHER_PROGRAM_PATH);
    const auto last = upgrade("rolled_back");
    EXPECT_EQ(last["outcome"], "rolled_back") << behaviour;
    EXPECT_EQ(last["to"], "9.9.9");
    const auto after = daemon_->status();
    EXPECT_EQ(after.segment, before.segment) << behaviour;
    EXPECT_EQ(after.restarts, 2u) << behaviour;
    EXPECT_EQ(running(after.server_pid), good) << behaviour;
    const std::uint64_t hits = workload.hits();
    const std::uint64_t stored = workload.stored();
    EXPECT_TRUE(eventually([&] { return workload.hits() > hits + 100; })) << behaviour;
    EXPECT_TRUE(eventually([&] { return workload.stored() > stored + 10; })) << behaviour;
    workload.stop();
    EXPECT_EQ(workload.wrong(), 0u) << behaviour;
    // And a good one afterwards is taken.
    point_at(ORLOPD_PATH);
    EXPECT_EQ(upgrade("succeeded")["rolled_back"], 1) << behaviour;
  }
}

TEST_F(Upgrade, Preflight_that_does_not_answer_is_ended) {
  start({}, {"ORLOP_TEST_PROGRAM=mute"});
  const auto before = daemon_->status();
  point_at(ORLOP_OTHER_PROGRAM_PATH);
  const auto last = upgrade("refused");
  EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr("in time"));
  EXPECT_EQ(daemon_->status().server_pid, before.server_pid);
}

TEST_F(Upgrade, Configuration_file_is_read_again_and_a_bad_one_changes_nothing) {
  const std::string file = folder_.path() + "/orlop.toml";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  write("[eviction]\nreserve = \"2MiB\"\n");
  start({"--config", file});
  write("[eviction]\nreserve = \"3MiB\"\n[memory]\nwait = \"9s\"\n");
  upgrade("succeeded");
  EXPECT_THAT(status()["configuration"]["eviction.reserve"].get<std::string>(), HasSubstr("3"));
  EXPECT_THAT(daemon_->log(), HasSubstr("memory.wait: 30s -> 9s"));
  const auto before = daemon_->status();
  write("[eviction]\nreserfe = \"3MiB\"\n");
  const auto last = upgrade("refused");
  EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr("exit code 64"));
  EXPECT_THAT(daemon_->log(), HasSubstr("eviction.reserve"));  // the nearest key
  EXPECT_EQ(daemon_->status().server_pid, before.server_pid);
}

// What is in the file is for who reloads or starts the node: a server that follows a crash, or a
// program that was no good, gets what was accepted.
TEST_F(Upgrade, Configuration_file_changed_meanwhile_is_nothing_to_a_restart) {
  const std::string file = folder_.path() + "/orlop.toml";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  const auto reserve = [&] {
    return status()["configuration"]["eviction.reserve"].get<std::string>();
  };
  write("[eviction]\nreserve = \"2MiB\"\n");
  start({"--config", file}, {"ORLOP_TEST_PROGRAM=exits"});
  const auto segment = daemon_->status().segment;
  EXPECT_EQ(reserve(), "2MiB");
  write("[eviction\nreserve = \"3MiB\"\n");
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(1)) << daemon_->log();
  EXPECT_EQ(reserve(), "2MiB");
  write("[eviction]\nreserve = \"4MiB\"\n");
  point_at(ORLOP_OTHER_PROGRAM_PATH);
  upgrade("rolled_back");
  EXPECT_EQ(reserve(), "2MiB");
  fs::remove(file);
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(4)) << daemon_->log();
  EXPECT_EQ(reserve(), "2MiB");
  // Taken up by a reload that succeeds, and kept from then on.
  write("[eviction]\nreserve = \"5MiB\"\n");
  point_at(ORLOPD_PATH);
  upgrade("succeeded");
  write("nonsense");
  const auto restarts = daemon_->status().restarts;
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(restarts + 1)) << daemon_->log();
  EXPECT_EQ(reserve(), "5MiB");
  EXPECT_EQ(daemon_->status().segment, segment);
}

TEST_F(Upgrade, Configuration_that_is_no_regular_file_any_more_refuses_the_reload_at_once) {
  const std::string file = folder_.path() + "/orlop.toml";
  std::ofstream(file) << "[eviction]\nreserve = \"2MiB\"\n";
  start({"--config", file});
  const auto before = daemon_->status();
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // whoever opens it waits for a writer
  const auto last = upgrade("refused");
  EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr("no regular file"));
  EXPECT_EQ(daemon_->status().server_pid, before.server_pid);
}

// It says that it serves, and answers nobody.
TEST_F(Upgrade, Program_that_only_says_that_it_serves_is_followed_by_the_one_before) {
  start({"--hang-limit", "1500ms"}, {"ORLOP_TEST_PROGRAM=says_serving"});
  const auto before = daemon_->status();
  const ino_t good = running(before.server_pid);
  point_at(ORLOP_OTHER_PROGRAM_PATH);
  const auto last = upgrade("rolled_back");
  EXPECT_THAT(last["reason"].get<std::string>(), HasSubstr("did not answer a ping"));
  EXPECT_EQ(daemon_->status().segment, before.segment);
  EXPECT_EQ(running(daemon_->status().server_pid), good);
}

TEST_F(Upgrade, Stop_during_an_upgrade_is_graceful) {
  start({}, {"ORLOP_TEST_PROGRAM=mute"});
  point_at(ORLOP_OTHER_PROGRAM_PATH);
  daemon_->hang_up();
  EXPECT_TRUE(eventually(
      [&] { return daemon_->log().find("event=upgrade_requested") != std::string::npos; }));
  daemon_->terminate();
  const ExitStatus ended = daemon_->wait_exit();
  EXPECT_FALSE(ended.by_signal);
  EXPECT_EQ(ended.value, 0) << daemon_->log();
}

TEST_F(Upgrade, Server_that_hangs_is_killed_and_followed_by_another) {
  start({"--hang-limit", "1s"});
  const auto before = daemon_->status();
  ::kill(static_cast<pid_t>(before.server_pid), SIGSTOP);
  ASSERT_TRUE(daemon_->wait_serving(1)) << daemon_->log();
  EXPECT_EQ(daemon_->status().segment, before.segment);
  EXPECT_THAT(daemon_->log(), HasSubstr("did not answer a ping"));
}

}  // namespace
}  // namespace orlop::process_test
