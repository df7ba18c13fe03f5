// SPDX-License-Identifier: Apache-2.0
#include "runtime/snapshot.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>

#include "runtime/admin_ports.h"

namespace orlop::runtime {
namespace {

class SnapshotPortTest : public ::testing::Test {
 protected:
  EventFd wake_ = EventFd::create().value();
  SnapshotPort port_{wake_};
};

TEST_F(SnapshotPortTest, Asker_is_answered_after_the_bell) {
  std::thread server([&] {
    ASSERT_TRUE(wake_.wait(kNever).value());
    const std::uint64_t ticket = port_.wanted();
    EXPECT_NE(ticket, 0u);
    auto snapshot = std::make_shared<NodeSnapshot>();
    snapshot->restarts = 7;
    port_.deliver(ticket, std::move(snapshot));
  });
  const auto got = port_.take(30 * kNsPerSecond);
  server.join();
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->restarts, 7u);
  EXPECT_EQ(port_.wanted(), 0u);
}

TEST_F(SnapshotPortTest, Silent_server_gives_nothing) {
  EXPECT_EQ(port_.take(1), nullptr);
}

TEST_F(SnapshotPortTest, Snapshot_begun_before_the_question_does_not_count) {
  EXPECT_EQ(port_.take(1), nullptr);
  const std::uint64_t ticket = port_.wanted();
  std::thread asker([&] { EXPECT_EQ(port_.take(30 * kNsPerSecond)->restarts, 2u); });
  while (port_.wanted() == ticket) std::this_thread::yield();
  port_.deliver(ticket, std::make_shared<NodeSnapshot>());  // begun before the asker came
  const std::uint64_t second = port_.wanted();
  EXPECT_NE(second, 0u);
  auto snapshot = std::make_shared<NodeSnapshot>();
  snapshot->restarts = 2;
  port_.deliver(second, std::move(snapshot));
  asker.join();
}

TEST_F(SnapshotPortTest, Closed_port_lets_everybody_go) {
  std::thread asker([&] { EXPECT_EQ(port_.take(kNsPerSecond * 3600), nullptr); });
  while (port_.wanted() == 0) std::this_thread::yield();
  port_.close();
  asker.join();
  EXPECT_EQ(port_.take(kNsPerSecond * 3600), nullptr);
}

TEST_F(SnapshotPortTest, Its_end_lets_those_inside_go_first) {
  auto port = std::make_unique<SnapshotPort>(wake_);
  std::thread asker([&] { EXPECT_EQ(port->take(kNsPerSecond * 3600), nullptr); });
  while (port->wanted() == 0) std::this_thread::yield();
  port.reset();
  asker.join();
}

TEST(AdminPorts, Close_ends_every_port) {
  const EventFd wake = EventFd::create().value();
  AdminPorts ports(wake);
  std::thread of_health([&] { EXPECT_EQ(ports.health.take(kNsPerSecond * 3600), nullptr); });
  std::thread of_snapshot([&] { EXPECT_EQ(ports.snapshots.take(kNsPerSecond * 3600), nullptr); });
  std::thread of_question([&] {
    const auto answer = ports.inspections.ask(protocol::question::Client{}, kNsPerSecond * 3600);
    EXPECT_EQ(answer.error().code, ErrorCode::kClosed);
  });
  while (ports.health.wanted() == 0 || ports.snapshots.wanted() == 0) std::this_thread::yield();
  ports.close();
  for (std::thread* one : {&of_health, &of_snapshot, &of_question}) one->join();
}

TEST(RequestNames, Are_distinct) {
  std::set<std::string_view> names;
  for (std::size_t i = 1; i < kRequestCodes; ++i) {
    names.insert(to_string(static_cast<protocol::RequestCode>(i)));
  }
  EXPECT_EQ(names.size(), kRequestCodes - 1);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace orlop::runtime
