// SPDX-License-Identifier: Apache-2.0
// The keeper itself is restarted, as a unit of a service manager that keeps its descriptors: all of
// the node goes on, or nothing of it is used again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/rng.h"
#include "platform/event_fd.h"
#include "platform/fork_guard.h"
#include "platform/memory_file.h"
#include "raw_client.h"
#include "stand_in_manager.h"
#include "workload.h"

namespace orlop::process_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kLong = Milliseconds{20'000};
constexpr std::size_t kOfNode = 4;  // ledger, control, value, server
constexpr std::size_t kOfClient = 6;

class UnitRestart : public ::testing::Test {
 protected:
  void start(std::vector<std::string> flags = {}) {
    daemon_ = manager_.start(folder_.path(), std::move(flags));
    ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  }
  void end(int signal_number) {
    if (signal_number == SIGKILL) {
      daemon_->kill_keeper();
    } else {
      daemon_->terminate();
    }
    daemon_->wait_exit();
  }
  unsigned cold_starts() const {
    unsigned count = 0;
    const std::string log = daemon_->log();
    for (std::size_t at = 0; (at = log.find("event=cold_start", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }

  TemporaryFolder folder_;
  StandInManager manager_{folder_.path()};
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(UnitRestart, Ready_after_the_first_server_serves_and_the_watchdog_is_petted) {
  daemon_ = manager_.start(folder_.path(), {}, {"WATCHDOG_USEC=60000"});
  ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  EXPECT_TRUE(eventually([&] { return manager_.count("READY=1") == 1; }));
  EXPECT_EQ(manager_.count("STATUS=serving at " + daemon_->socket()), 1u);
  const unsigned pets = manager_.count("WATCHDOG=1");
  EXPECT_TRUE(eventually([&] { return manager_.count("WATCHDOG=1") > pets + 5; }));
  daemon_->hang_up();
  EXPECT_TRUE(eventually([&] { return manager_.count("READY=1") == 2; }));
  EXPECT_EQ(manager_.count("RELOADING=1"), 1u);
  daemon_->terminate();
  daemon_->wait_exit();
  manager_.settle();
  EXPECT_EQ(manager_.count("STOPPING=1"), 1u);
}

TEST_F(UnitRestart, Keeper_that_stands_still_is_not_petted) {
  daemon_ = manager_.start(folder_.path(), {}, {"WATCHDOG_USEC=60000"});
  ASSERT_TRUE(daemon_->wait_serving()) << daemon_->log();
  ::kill(daemon_->keeper_pid(), SIGSTOP);
  manager_.settle();
  const unsigned pets = manager_.count("WATCHDOG=1");
  ::usleep(200'000);  // three times its interval; none may come
  manager_.settle();
  EXPECT_EQ(manager_.count("WATCHDOG=1"), pets);
  ::kill(daemon_->keeper_pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] { return manager_.count("WATCHDOG=1") > pets; }));
}

TEST_F(UnitRestart, Store_has_what_the_keeper_holds_and_no_more) {
  start();
  EXPECT_THAT(manager_.stored(),
              ElementsAre("orlop-control", "orlop-ledger", "orlop-server-1", "orlop-value"));
  auto first = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(first) << first.error().message;
  auto second = RawClient::attach(daemon_->socket());  // of the same fork pipe
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(manager_.stored().size(), kOfNode + 2 * kOfClient);
  (*first)->detach();
  EXPECT_TRUE(eventually([&] { return manager_.stored().size() == kOfNode + kOfClient; }));
  daemon_->kill_server();
  ASSERT_TRUE(daemon_->wait_serving(1)) << daemon_->log();
  EXPECT_TRUE(eventually([&] { return manager_.stored().size() == kOfNode + kOfClient; }));
}

TEST_F(UnitRestart, Contents_clients_and_plans_outlive_the_keeper) {
  for (const int signal_number : {SIGTERM, SIGKILL}) {
    start();
    const auto before = daemon_->status();
    Client client({.socket = daemon_->socket()});
    ASSERT_TRUE(client.wait_ready(kLong));
    const auto ns = client.open_namespace(workload_namespace());
    const auto keys = page_keys("kept-" + std::to_string(signal_number) + "-", 20);
    ASSERT_TRUE(put_pages(client, *ns, keys));
    auto handle = client.get_start(*ns, views_of(keys));
    auto plan = client.get_transfer(*handle);
    ASSERT_EQ(plan->size(), 20u);
    Workload workload(daemon_->socket());
    ASSERT_TRUE(eventually([&] { return workload.hits() > 100; }));

    end(signal_number);
    const std::uint64_t hits = workload.hits();
    EXPECT_TRUE(eventually([&] { return workload.hits() > hits + 8; }));  // nobody serves
    start();
    EXPECT_EQ(daemon_->status().segment, before.segment) << daemon_->log();
    EXPECT_NE(daemon_->status().keeper_pid, before.keeper_pid);
    const std::uint64_t stored = workload.stored();
    EXPECT_TRUE(eventually([&] { return workload.stored() > stored + 10; })) << daemon_->log();
    EXPECT_GE(workload.resumes(), 1u);
    EXPECT_EQ(workload.attaches(), 1u);
    workload.stop();
    EXPECT_EQ(workload.wrong(), 0u);
    for (std::size_t i = 0; i < plan->size(); ++i)
      EXPECT_TRUE(std::ranges::equal(plan->view(i), page_of(keys[i])));
    const auto found = client.exists(*ns, views_of(keys));
    EXPECT_EQ(found->prefix_len, 20u);
    EXPECT_EQ(cold_starts(), 0u);
    client.close();
    end(SIGTERM);
  }
}

TEST_F(UnitRestart, Client_ids_go_on_and_the_dead_are_reclaimed) {
  start();
  auto first = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(first) << first.error().message;
  (*first)->detach();
  EXPECT_TRUE(eventually([&] { return manager_.stored().size() == kOfNode; }));
  end(SIGKILL);
  start();
  auto second = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_GT((*second)->welcome().client.value, (*first)->welcome().client.value);
  EXPECT_EQ((*second)->welcome().segment, (*first)->welcome().segment);
}

TEST_F(UnitRestart, Changed_memory_is_a_cold_start_and_old_plans_stay_right) {
  start();
  const auto before = daemon_->status();
  Client client({.socket = daemon_->socket()});
  ASSERT_TRUE(client.wait_ready(kLong));
  const auto ns = client.open_namespace(workload_namespace());
  const auto keys = page_keys("old-", 5);
  ASSERT_TRUE(put_pages(client, *ns, keys));
  auto handle = client.get_start(*ns, views_of(keys));
  auto plan = client.get_transfer(*handle);
  ASSERT_EQ(plan->size(), 5u);
  end(SIGTERM);
  start({"--capacity", "96MiB"});
  EXPECT_NE(daemon_->status().segment, before.segment);
  EXPECT_THAT(daemon_->log(), HasSubstr("the configuration changed"));
  EXPECT_TRUE(eventually([&] { return client.segment_id() == daemon_->status().segment.value; }));
  for (std::size_t i = 0; i < plan->size(); ++i)
    EXPECT_TRUE(std::ranges::equal(plan->view(i), page_of(keys[i])));
  EXPECT_EQ(client.exists(*ns, views_of(keys))->prefix_len, 0u);
  EXPECT_TRUE(put_pages(client, *ns, keys));
  EXPECT_EQ(manager_.stored().size(), kOfNode + kOfClient);
}

// One descriptor gone, of any kind: nothing is used again, and the next one is whole.
TEST_F(UnitRestart, Any_missing_descriptor_is_a_cold_start) {
  start();
  auto client = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(client) << client.error().message;
  const std::vector<std::string> kinds = {"orlop-ledger", "orlop-control",  "orlop-value",
                                          "-memory",      "-node-doorbell", "-client-doorbell",
                                          "-process",     "-fork-pipe",     "-keeper-pipe"};
  for (const std::string& kind : kinds) {
    auto held = RawClient::attach(daemon_->socket());
    ASSERT_TRUE(held) << kind << held.error().message;
    const auto before = daemon_->status().segment;
    end(SIGKILL);
    bool removed = false;
    for (const std::string& name : manager_.stored()) {
      if (!removed && name.ends_with(kind)) removed = manager_.remove(name);
    }
    ASSERT_TRUE(removed) << kind;
    start();
    EXPECT_NE(daemon_->status().segment, before) << kind;
    EXPECT_TRUE(wait_hang_up((*held)->keeper_pipe())) << kind;  // the library lets go of the memory
    EXPECT_EQ(manager_.stored().size(), kOfNode) << kind;
  }
  EXPECT_EQ(cold_starts(), kinds.size());
}

// The manager would keep a descriptor that it has only once: who sends one is refused, and costs
// nobody else anything. A node of another user cannot open the pipe anew.
TEST_F(UnitRestart, Client_whose_fork_pipe_cannot_be_stored_is_refused_alone) {
  start();
  const auto before = daemon_->status().segment;
  const int shared = fork_pipe_read_end().value();
  auto first = RawClient::attach(daemon_->socket(), {.fork_pipe = shared});
  ASSERT_TRUE(first) << first.error().message;
  auto second = RawClient::attach(daemon_->socket(), {.fork_pipe = shared});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("the same fork pipe"));
  const auto event = EventFd::create().value();
  EXPECT_FALSE(RawClient::attach(daemon_->socket(), {.fork_pipe = event.fd()}));
  auto third = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_EQ(manager_.stored().size(), kOfNode + 2 * kOfClient);
  end(SIGKILL);
  start();
  EXPECT_EQ(daemon_->status().segment, before) << daemon_->log();
  EXPECT_THAT(daemon_->log(), Not(HasSubstr("event=store_given_up")));
}

// Of the same size, sealed alike, and not it.
TEST_F(UnitRestart, Other_memory_under_the_name_of_ours_is_a_cold_start) {
  start();
  const auto before = daemon_->status().segment;
  end(SIGKILL);
  ASSERT_TRUE(manager_.remove("orlop-value"));
  auto other = MemoryFile::create({"orlop-value", 64 * kMiB, HugePages::kOff, 0600}).value();
  manager_.add("orlop-value", FileDescriptor(::fcntl(other.fd(), F_DUPFD_CLOEXEC, 0)));
  start();
  EXPECT_NE(daemon_->status().segment, before);
  EXPECT_THAT(daemon_->log(), HasSubstr("not the one that the ledger was written for"));
}

TEST_F(UnitRestart, Settings_of_how_memory_is_made_are_told_and_cost_nothing) {
  start({"--touch", "on"});
  const auto before = daemon_->status().segment;
  for (int restart = 0; restart < 2;
       ++restart) {  // the second time too: it is still the old memory
    end(SIGKILL);
    start({"--touch", "off"});
    EXPECT_EQ(daemon_->status().segment, before);
  }
  const std::string log = daemon_->log();
  const auto told = log.find("event=setting_not_taken_up");
  ASSERT_NE(told, std::string::npos) << log;
  EXPECT_THAT(log.substr(told), HasSubstr("memory.touch = off"));
  EXPECT_NE(log.find("event=setting_not_taken_up", told + 1), std::string::npos) << log;
}

TEST_F(UnitRestart, Server_whose_death_cannot_be_proved_is_a_cold_start) {
  start();
  const auto before = daemon_->status().segment;
  end(SIGKILL);
  ASSERT_TRUE(manager_.remove("orlop-server-1"));
  start();
  EXPECT_NE(daemon_->status().segment, before);
  EXPECT_THAT(daemon_->log(), HasSubstr("orlop-server-1 is missing"));
}

TEST_F(UnitRestart, Wrong_or_unknown_descriptors_are_a_cold_start) {
  start();
  const auto first = daemon_->status().segment;
  end(SIGKILL);
  // An event descriptor in place of the values.
  ASSERT_TRUE(manager_.remove("orlop-value"));
  auto event = EventFd::create().value();
  manager_.add("orlop-value", event.descriptor().duplicate().value());
  start();
  const auto second = daemon_->status().segment;
  EXPECT_NE(second, first);
  end(SIGKILL);
  manager_.add("orlop-of-a-later-version", event.descriptor().duplicate().value());
  start();
  EXPECT_NE(daemon_->status().segment, second);
  EXPECT_EQ(cold_starts(), 2u);
}

TEST_F(UnitRestart, Upgraded_unit_keeps_everything_in_the_restart_after) {
  start();
  const auto before = daemon_->status();
  daemon_->hang_up();
  ASSERT_TRUE(daemon_->wait_serving(1)) << daemon_->log();
  end(SIGKILL);
  start();
  EXPECT_EQ(daemon_->status().segment, before.segment);
  EXPECT_EQ(daemon_->status().restarts, 2u);
}

// A manager that does not read: the node serves all the same, and says what that costs.
TEST_F(UnitRestart, Manager_that_does_not_answer_costs_the_store_only) {
  start();
  const auto before = daemon_->status().segment;
  manager_.stall(true);
  auto client = RawClient::attach(daemon_->socket());
  ASSERT_TRUE(client) << client.error().message;
  (*client)->ping();
  EXPECT_THAT(daemon_->log(), HasSubstr("event=store_given_up"));
  manager_.stall(false);
  end(SIGTERM);
  start();
  EXPECT_NE(daemon_->status().segment, before);
}

// The server is started and does not have the memory yet, because its death could not be proved.
TEST_F(UnitRestart, Stop_before_the_server_has_its_memory_is_graceful) {
  manager_.stall(true);
  daemon_ = manager_.start(folder_.path());
  ASSERT_TRUE(eventually([&] { return daemon_->log().contains("event=server_started"); }));
  daemon_->terminate();
  const ExitStatus ended = daemon_->wait_exit();
  EXPECT_FALSE(ended.by_signal);
  EXPECT_EQ(ended.value, 0);
  EXPECT_THAT(daemon_->log(), HasSubstr("event=server_not_needed"));
  EXPECT_THAT(daemon_->log(), Not(HasSubstr("another kind was expected")));
  manager_.stall(false);
}

// Keepers killed at any moment under clients that come and go.
TEST_F(UnitRestart, Killed_at_any_moment_never_cold_and_nothing_wrong) {
  Rng rng(1);
  start();
  const auto segment = daemon_->status().segment;
  Workload workload(daemon_->socket());
  ASSERT_TRUE(eventually([&] { return workload.hits() > 0; }));
  for (int round = 0; round < 15; ++round) {
    std::atomic<bool> over = false;
    std::thread comers([&] {
      // The same instance each time, so that each attach also reclaims the client before.
      while (!over) (void)RawClient::attach(daemon_->socket(), {.nonce = 4711});
    });
    ::usleep(static_cast<useconds_t>(rng.uniform(30'000)));
    daemon_->kill_keeper();
    over = true;
    comers.join();
    daemon_->wait_exit();
    start();
    ASSERT_EQ(daemon_->status().segment, segment) << daemon_->log();
  }
  const std::uint64_t stored = workload.stored();
  EXPECT_TRUE(eventually([&] { return workload.stored() > stored + 10; })) << daemon_->log();
  workload.stop();
  EXPECT_EQ(workload.wrong(), 0u);
  EXPECT_EQ(workload.attaches(), 1u);
  EXPECT_THAT(daemon_->log(), Not(HasSubstr("event=cold_start")));
}

}  // namespace
}  // namespace orlop::process_test
