// SPDX-License-Identifier: Apache-2.0
// Clients that live, leave and die; and that the gauges say so.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"
#include "platform/file_descriptor.h"
#include "raw_client.h"

namespace orlop::process_test {
namespace {

std::vector<KeyId> keys(std::uint64_t first, std::size_t count) {
  std::vector<KeyId> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({first + i, 7});
  return out;
}

// slots by state sum to the assigned ones.
void expect_reconciled(const Daemon& daemon) {
  const auto metrics = daemon.metrics();
  double sum = 0;
  for (const auto& [name, value] : metrics) {
    if (name.starts_with("orlop_slots{")) sum += value;
  }
  EXPECT_EQ(sum, metrics.at("orlop_slots_assigned"));
}

void expect_idle(const Daemon& daemon) {
  const auto metrics = daemon.metrics();
  for (const char* name : {"orlop_open_puts", "orlop_waiting_puts", "orlop_prepared_bytes",
                           "orlop_slots{state=\"prepared\"}", "orlop_handshakes"}) {
    EXPECT_EQ(metrics.at(name), 0) << name;
  }
}

// A process that attaches, starts a put and says "r" when its memory is reserved; then it waits
// to be killed. hold_fork: it also forks a child that lives on, whose pid comes after the "r".
struct Writer {
  pid_t pid = 0;
  pid_t grandchild = 0;
};
Writer start_writer(const std::string& socket, bool hold_fork) {
  Pipe told = make_pipe().value();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Its own fork pipe was made by the fork (pthread_atfork).
    auto client = RawClient::attach(socket);
    pid_t grandchild = 0;
    if (client) {
      const NamespaceRow row = (*client)->open_namespace(4096);
      (*client)->put_start(row, keys(1000, 4));
      if (hold_fork) {
        grandchild = ::fork();
        if (grandchild == 0) {
          for (;;) ::pause();
        }
      }
    }
    (void)!::write(told.write_end.get(), &grandchild, sizeof grandchild);
    for (;;) ::pause();
  }
  Writer writer{pid, 0};
  EXPECT_TRUE(eventually([&] {
    return ::read(told.read_end.get(), &writer.grandchild, sizeof(pid_t)) == sizeof(pid_t);
  }));
  return writer;
}
void kill_child(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(DaemonClients, Put_and_detach_leave_only_pages) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto client = RawClient::attach(daemon.socket());
  ASSERT_TRUE(client) << client.error().message;
  const NamespaceRow row = (*client)->open_namespace(4096);
  const auto started = (*client)->put_start(row, keys(1, 128));
  EXPECT_EQ(daemon.metric("orlop_open_puts"), 1);
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 128 * 4096);
  expect_reconciled(daemon);
  for (const Outcome outcome : (*client)->commit(started)) EXPECT_EQ(outcome, Outcome::kStored);
  expect_idle(daemon);
  expect_reconciled(daemon);
  EXPECT_EQ(daemon.metric("orlop_slots{state=\"committed\"}"), 128);
  EXPECT_EQ(daemon.metric("orlop_requests_total{request=\"put_start\"}"), 1);
  EXPECT_EQ(daemon.metric("orlop_key_outcomes_total{outcome=\"stored\"}"), 128);
  (*client)->detach();
  EXPECT_TRUE(wait_hang_up((*client)->socket()));
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 0; }));
  EXPECT_EQ(daemon.metric("orlop_slots{state=\"committed\"}"), 128);
}

TEST(DaemonClients, Killed_writer_is_reclaimed) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  const Writer writer = start_writer(daemon.socket(), false);
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 4 * 4096);
  kill_child(writer.pid);
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 0; }));
  expect_idle(daemon);
  expect_reconciled(daemon);
  EXPECT_EQ(daemon.metric("orlop_prepared_reclaimed_total"), 4);
}

TEST(DaemonClients, Killed_while_no_server_lives_is_reclaimed_by_the_next) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  const Writer writer = start_writer(daemon.socket(), false);
  daemon.kill_server();
  kill_child(writer.pid);
  ASSERT_TRUE(daemon.wait_serving(1)) << daemon.log();
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 0; }));
  expect_idle(daemon);
}

TEST(DaemonClients, Forked_child_holds_the_puts_of_its_dead_parent) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  const Writer writer = start_writer(daemon.socket(), true);
  ASSERT_NE(writer.grandchild, 0);
  kill_child(writer.pid);
  EXPECT_TRUE(eventually([&] {
    const auto metrics = daemon.metrics();
    for (const auto& [name, value] : metrics) {
      if (name.starts_with("orlop_client_held_by_fork") && value == 1) return true;
    }
    return false;
  }));
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 4 * 4096);
  // Also a new server waits for the child.
  daemon.kill_server();
  ASSERT_TRUE(daemon.wait_serving(1)) << daemon.log();
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_client_deaths_total") == 1; }));
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 4 * 4096);
  ::kill(writer.grandchild, SIGKILL);
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 0; }));
  expect_idle(daemon);
}

TEST(DaemonClients, Lost_socket_keeps_the_puts_of_a_living_client) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto client = RawClient::attach(daemon.socket());
  ASSERT_TRUE(client) << client.error().message;
  const NamespaceRow row = (*client)->open_namespace(4096);
  const auto started = (*client)->put_start(row, keys(1, 4));
  (*client)->hang_up();
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_attached") == 0; }));
  EXPECT_EQ(daemon.metric("orlop_prepared_bytes"), 4 * 4096);
  const auto resumed = (*client)->resume(daemon.socket());
  ASSERT_TRUE(resumed) << resumed.error().message;
  for (const Outcome outcome : (*client)->commit(started)) EXPECT_EQ(outcome, Outcome::kStored);
  expect_idle(daemon);
}

TEST(DaemonClients, Attach_again_says_that_the_channel_never_came) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto first = RawClient::attach(daemon.socket());
  ASSERT_TRUE(first) << first.error().message;
  (*first)->hang_up();
  auto second = RawClient::attach(daemon.socket(), {.nonce = (*first)->nonce()});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE((*second)->welcome().client, (*first)->welcome().client);
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 1; }));
  (*second)->ping();
}

TEST(DaemonClients, Many_clients_are_served_and_let_go) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::uint64_t i = 0; i < 20; ++i) {
    auto client = RawClient::attach(daemon.socket());
    ASSERT_TRUE(client) << client.error().message;
    const NamespaceRow row = (*client)->open_namespace(4096);
    (*client)->put(row, keys(1 + 100 * i, 10));
    clients.push_back(std::move(*client));
  }
  EXPECT_EQ(daemon.metric("orlop_clients_attached"), 20);
  for (const auto& client : clients) client->detach();
  EXPECT_TRUE(eventually([&] { return daemon.metric("orlop_clients_known") == 0; }));
  EXPECT_EQ(daemon.metric("orlop_slots{state=\"committed\"}"), 200);
}

TEST(DaemonClients, False_mismatch_report_is_checked_and_counted) {
  const TemporaryFolder folder;
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  auto client = RawClient::attach(daemon.socket());
  ASSERT_TRUE(client) << client.error().message;
  const NamespaceRow row = (*client)->open_namespace(4096);
  const auto started = (*client)->put_start(row, keys(1, 1));
  (*client)->commit(started);
  const SlotId slot{started.grants[0].slot};
  const segment::SlotRow& slot_row = (*client)->area().slot(slot);
  (*client)->session().report(
      {slot_row.load_key(), slot_row.load_ns().value, slot.value, started.grants[0].generation, 0});
  (*client)->session().pump();
  (*client)->ring_node();
  EXPECT_TRUE(eventually([&] {
    return daemon.metric("orlop_false_mismatches_total") +
               daemon.metric("orlop_mismatches_confirmed_total") ==
           1;
  }));
  EXPECT_EQ(daemon.metric("orlop_mismatch_reports_total"), 1);
}

}  // namespace
}  // namespace orlop::process_test
