// SPDX-License-Identifier: Apache-2.0
// No node: not yet, not any more, or another one.
#include <gtest/gtest.h>

#include "platform/clock.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::Daemon;
using process_test::eventually;
using process_test::TemporaryFolder;

constexpr Milliseconds kBudget{200};

void expect_no_node(const Result<void>& result, const std::string& socket) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNoNode);
  EXPECT_NE(result.error().message.find(socket), std::string::npos) << result.error().message;
}

// What every call answers while nobody listens at the socket.
void expect_absent(Client& client, const Namespace& ns, const std::string& socket) {
  const MonoNs begun = monotonic_ns();
  const Keys keys(4, "absent");
  for (int i = 0; i < 100; ++i) {
    auto handle = client.get_start(ns, keys);
    EXPECT_EQ(handle->result().reason, MissReason::kNotAttached);
    EXPECT_EQ(client.get_transfer(*handle)->size(), 0U);
    EXPECT_EQ(client.exists(ns, keys)->prefix_len, 0U);
  }
  auto plan = client.put_start(ns, keys);
  EXPECT_EQ(plan->prepared(), 0U);
  EXPECT_EQ(plan->outcome(3), Outcome::kNoNode);
  EXPECT_NE(plan->explanation().find(socket), std::string_view::npos) << plan->explanation();
  const auto future = client.put_commit(*plan);
  EXPECT_TRUE(
      all_are(future->wait(Milliseconds{0}).value_or(std::vector<Outcome>{}), Outcome::kNoNode));
  expect_no_node(error_of(client.flush(ns)), socket);
  expect_no_node(error_of(client.flush_family(ns)), socket);
  expect_no_node(error_of(client.remove(ns, keys)), socket);
  expect_no_node(client.ping(), socket);
  EXPECT_LT(monotonic_ns() - begun, 10 * kNsPerSecond);
}

Result<void> nobody_there(World&) {
  const TemporaryFolder folder;
  const std::string socket = folder.path() + "/nobody.sock";
  Client client(Worker::options(socket, "early", kBudget));
  EXPECT_TRUE(eventually(
      [&] { return client.last_attach_error().message.find(socket) != std::string::npos; }, 10));
  EXPECT_FALSE(client.wait_ready(Milliseconds{1}));
  auto ns = client.open_namespace(descriptor());
  if (!ns) return std::unexpected(ns.error());
  EXPECT_FALSE(ns->resolved());
  expect_absent(client, *ns, socket);
  // Also the folder may be missing.
  Client lost(Worker::options(folder.path() + "/none/node.sock", "lost", kBudget));
  return error_of(lost.flush(*lost.open_namespace(descriptor())));
}

Result<void> starts_later(World&) {
  const TemporaryFolder folder;
  const std::string socket = folder.path() + "/node.sock";
  Client client(Worker::options(socket, "early", kBudget));
  auto ns = client.open_namespace(descriptor());
  if (!ns) return std::unexpected(ns.error());
  expect_absent(client, *ns, socket);
  Daemon daemon(folder.path());
  EXPECT_TRUE(daemon.wait_serving()) << daemon.log();
  EXPECT_TRUE(client.wait_ready(kPatience)) << client.last_attach_error().message;
  EXPECT_TRUE(eventually([&] { return ns->resolved(); }, 10));
  const Keys keys(4, "absent");
  const std::vector<std::byte> page = page_of(keys[0]);
  const std::vector<std::span<const std::byte>> buffers(4, page);
  EXPECT_TRUE(eventually(
      [&] {
        const auto outcomes = client.put(*ns, keys, buffers);
        return outcomes &&
               (all_are(*outcomes, Outcome::kStored) || all_are(*outcomes, Outcome::kExists));
      },
      10));
  EXPECT_TRUE(client.get_start(*ns, keys)->result().all_hit);
  return {};
}

// The keeper dies, the server with it: the memory is gone for new plans, not for old ones.
Result<void> keeper_killed(World& world) {
  Worker& worker = world.worker();
  const Keys keys(4, "kept");
  EXPECT_TRUE(all_are(worker.put(keys), Outcome::kStored));
  auto handle = worker.client.get_start(worker.ns, keys);
  auto plan = worker.client.get_transfer(*handle);
  auto writing = worker.client.put_start(worker.ns, Keys(2, "writing"));
  Worker hasty(Worker::options(world.socket(), "hasty", kBudget));
  const std::uint64_t segment = worker.client.segment_id();

  world.daemon().kill_keeper();
  EXPECT_TRUE(eventually([&] {
    return worker.client.segment_id() == 0 && hasty.client.segment_id() == 0 &&
           hasty.client.last_attach_error().code == ErrorCode::kNoNode;
  }));
  EXPECT_EQ(plan->size(), 4U);
  EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);
  expect_absent(hasty.client, hasty.ns, world.socket());
  EXPECT_EQ(worker.get(keys).reason, MissReason::kNotAttached);

  EXPECT_TRUE(world.start_another_daemon()) << world.daemon().log();
  EXPECT_NE(worker.client.segment_id(), segment);
  EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);  // of the old memory
  EXPECT_TRUE(worker.client.release_views(*plan));
  EXPECT_EQ(plan->size(), 0U);
  // What was being written belonged to the old memory.
  EXPECT_TRUE(writing->copy_in(0, page_of("writing0")));
  const auto future = worker.client.put_commit(*writing);
  EXPECT_TRUE(all_are(future->wait(kPatience).value_or(std::vector<Outcome>{}), Outcome::kNoNode));
  EXPECT_EQ(worker.get(keys).reason, MissReason::kNotFound);
  EXPECT_TRUE(all_are(worker.put(keys), Outcome::kStored));
  world.expect_readable(keys);
  return {};
}

// Stopped as an operator does it; the clients take it as well as a kill.
Result<void> node_stopped_gracefully(World& world) {
  Worker& worker = world.worker();
  const Keys keys(4, "stopped");
  EXPECT_TRUE(all_are(worker.put(keys), Outcome::kStored));
  auto handle = worker.client.get_start(worker.ns, keys);
  auto plan = worker.client.get_transfer(*handle);
  world.daemon().terminate();
  EXPECT_TRUE(eventually([&] { return worker.client.segment_id() == 0; }));
  EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);
  EXPECT_TRUE(world.start_another_daemon()) << world.daemon().log();
  EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);
  EXPECT_TRUE(worker.client.release_views(*plan));
  return {};
}

}  // namespace

Rows absence_rows() {
  using enum Item;
  return {
      {kNoNode,
       "nobody_there",
       ErrorCode::kNoNode,
       {"no node answered at", "/none/node.sock", "is orlopd running?"},
       nobody_there},
      {kNodeStartsLater, "starts_later", {}, {}, starts_later},
      {kKeeperKilled, "keeper_killed", {}, {}, keeper_killed, WorldOptions{}},
      {kKeeperKilled, "node_stopped_gracefully", {}, {}, node_stopped_gracefully, WorldOptions{}},
  };
}

}  // namespace orlop::negative_test
