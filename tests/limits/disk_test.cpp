// SPDX-License-Identifier: Apache-2.0
// File systems that are full, small or gone: values are in memory files, so none of it matters to
// clients, and the node says what does not work without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "resources.h"
#include "world.h"

namespace orlop::limits_test {
namespace {

using ::testing::HasSubstr;
using namespace negative_test;
using process_test::Daemon;
using process_test::eventually;
using process_test::TemporaryFolder;

void expect_works(Worker& worker, const std::string& prefix) {
  const Keys keys(8, prefix);
  EXPECT_TRUE(all_are(worker.put(keys), Outcome::kStored)) << prefix;
  const Got got = worker.get(keys);
  EXPECT_EQ(got.pages, 8U) << prefix;
  EXPECT_EQ(got.wrong, 0U) << prefix;
}

#define NEED_PRIVATE_MOUNTS()                                                \
  if (const auto private_mounts = enter_private_mounts(); !private_mounts) { \
    GTEST_SKIP() << "NOT CHECKED HERE: " << private_mounts.error().message;  \
  }

// The log and the status file lie on it; the node was started before it was full.
TEST(FullDisk, Node_serves_restarts_and_says_so_when_there_is_space_again) {
  NEED_PRIVATE_MOUNTS();
  const TemporaryFolder folder;
  SmallDisk disk(folder.path(), 256 * 1024);
  Daemon daemon(folder.path());
  ASSERT_TRUE(daemon.wait_serving()) << daemon.log();
  Worker worker(Worker::options(daemon.socket(), "worker"));
  ASSERT_TRUE(worker.usable());
  const Keys kept(8, "kept");
  ASSERT_TRUE(all_are(worker.put(kept), Outcome::kStored));
  const auto before = daemon.status();

  disk.fill();
  expect_works(worker, "full");
  daemon.kill_server();
  ASSERT_TRUE(eventually([&] { return worker.client.stats().resumes == 1; }));
  expect_works(worker, "restarted-full");
  Worker late(Worker::options(daemon.socket(), "late"));
  EXPECT_TRUE(late.usable());
  EXPECT_EQ(late.get(kept).pages, 8U);
  // A reader of the status file gets the last whole one, never a part.
  EXPECT_EQ(daemon.status().incarnation, before.incarnation);

  disk.empty();
  EXPECT_TRUE(eventually([&] { return daemon.status().incarnation != before.incarnation; }))
      << "the status file is not written when there is space again\n"
      << daemon.log();
  EXPECT_EQ(daemon.status().restarts, 1U);
  EXPECT_FALSE(std::filesystem::exists(node::status_file_path(daemon.socket()) + ".new"));
  expect_works(worker, "after");
  daemon.kill_server();
  ASSERT_TRUE(daemon.wait_serving(2)) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr("event=serving"));
  daemon.terminate();
  EXPECT_EQ(daemon.wait_exit().value, 0);
}

// Nothing fits from the beginning: not a line of log, no status file.
TEST(FullDisk, Node_starts_on_one_and_its_status_file_comes_later) {
  NEED_PRIVATE_MOUNTS();
  const TemporaryFolder folder;
  SmallDisk disk(folder.path(), 64 * 1024);
  disk.fill();
  Daemon daemon(folder.path());
  Worker worker(Worker::options(daemon.socket(), "worker"));
  ASSERT_TRUE(worker.usable()) << worker.client.last_attach_error().message;
  expect_works(worker, "full");
  EXPECT_FALSE(std::filesystem::exists(node::status_file_path(daemon.socket())));
  disk.empty();
  EXPECT_TRUE(daemon.wait_serving());
  EXPECT_THAT(daemon.log(), HasSubstr("status_file"));
  expect_works(worker, "after");
}

// Containers give /dev/shm 64 MiB; the values are not there.
TEST(SmallShm, Node_of_1_GiB_stores_more_than_fits_there) {
  NEED_PRIVATE_MOUNTS();
  SmallDisk shm("/dev/shm", 64 * kMiB);
  World world({.daemon = {"--capacity", "1GiB"}});
  ASSERT_TRUE(world.ok());
  constexpr std::size_t kPages = 24'576;  // of 4 KiB: 96 MiB
  std::size_t stored = 0;
  for (std::size_t first = 0; first < kPages; first += 512) {
    const Keys keys(512, "shm", first);
    stored += all_are(world.worker().put(keys), Outcome::kStored) ? 512 : 0;
  }
  EXPECT_EQ(stored, kPages);
  for (std::size_t first = 0; first < kPages; first += 512)
    world.expect_readable(Keys(512, "shm", first));
  std::error_code error;
  EXPECT_TRUE(std::filesystem::is_empty("/dev/shm", error));
  world.expect_sound();
}

// ---- the folder of the socket is gone ----

TEST(SocketFolder, Attached_clients_go_on_and_new_ones_are_told) {
  World world;
  ASSERT_TRUE(world.ok());
  const Keys keys(8, "kept");
  ASSERT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  const auto server = static_cast<pid_t>(world.daemon().status().server_pid);
  std::filesystem::remove_all(world.folder());

  expect_works(world.worker(), "gone");
  Client late(Worker::options(world.socket(), "late", Milliseconds{100}));
  EXPECT_TRUE(eventually([&] { return tried(late); }));
  EXPECT_EQ(late.last_attach_error().code, ErrorCode::kNoNode);
  EXPECT_THAT(late.last_attach_error().message, HasSubstr("start orlopd, or set ORLOP_SOCKET"));

  // Its server may die, too: nobody finds the next one, but what is there stays readable, and calls
  // that need the node end.
  ::kill(server, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !world.worker().client.ready(); }));
  world.expect_readable(keys);
  Worker& worker = world.worker();
  auto plan = worker.client.put_start(worker.ns, Keys(1, "none"), {.deadline = Milliseconds{200}});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->outcome(0), Outcome::kNoNode);

  // The remedy: a restart of the node, with the folder there.
  std::filesystem::create_directory(world.folder());
  world.daemon().terminate();
  ASSERT_TRUE(world.start_another_daemon()) << world.daemon().log();
  EXPECT_TRUE(late.wait_ready(kPatience)) << late.last_attach_error().message;
  late.close();
  world.expect_sound();
}

}  // namespace
}  // namespace orlop::limits_test
