// SPDX-License-Identifier: Apache-2.0
// Memory that the kernel does not give: cgroup limits of both versions, and locked memory of 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "child_process.h"
#include "node/exit_status.h"
#include "resources.h"
#include "world.h"

namespace orlop::limits_test {
namespace {

using ::testing::HasSubstr;
using namespace negative_test;
using process_test::Daemon;
using process_test::eventually;
using process_test::TemporaryFolder;

class MemoryLimit : public ::testing::TestWithParam<MemoryCgroup::Version> {};

#define NEED_CGROUP(name)                                                                \
  auto name##_made = MemoryCgroup::create(GetParam());                                   \
  if (!name##_made) GTEST_SKIP() << "NOT CHECKED HERE: " << name##_made.error().message; \
  MemoryCgroup& name = *name##_made

TEST_P(MemoryLimit, Node_that_does_not_fit_refuses_and_names_limit_and_remedy) {
  NEED_CGROUP(cgroup);
  ASSERT_TRUE(cgroup.limit(96 * kMiB));
  const TemporaryFolder folder;
  Daemon daemon(folder.path(), {"--capacity", "256MiB", "--touch", "on"},
                {.before = cgroup.enter()});
  EXPECT_EQ(daemon.wait_exit().value, node::kStatusRefused) << daemon.log();
  EXPECT_THAT(daemon.log(), HasSubstr(cgroup.limit_file()));
  EXPECT_THAT(daemon.log(), HasSubstr("lower memory.capacity to at most"));
  EXPECT_EQ(cgroup.kills(), 0U);
}

TEST_P(MemoryLimit, Node_that_fits_touches_all_of_its_memory_under_the_limit) {
  NEED_CGROUP(cgroup);
  // What docs/operations/containers.md says: the capacity, 5 % and 64 MiB.
  ASSERT_TRUE(cgroup.limit((256 + 13 + 64) * kMiB));
  World world(
      {.daemon = {"--capacity", "256MiB", "--touch", "on"}, .start = {.before = cgroup.enter()}});
  ASSERT_TRUE(world.ok()) << world.daemon().log();
  EXPECT_GE(cgroup.usage(), 256 * kMiB);
  for (std::size_t first = 0; first < 16'384; first += 1'024)
    EXPECT_TRUE(all_are(world.worker().put(Keys(1'024, "fits", first)), Outcome::kStored));
  world.expect_sound();
  EXPECT_EQ(cgroup.kills(), 0U);
}

// Writes until the kernel takes it.
int write_for_ever(const std::string& socket, const MemoryCgroup& cgroup, Board& board) {
  cgroup.enter_self();
  Worker me(Worker::options(socket, "eater"));
  if (!me.usable()) return 1;
  for (std::size_t round = 0;; ++round) {
    if (!all_are(me.put(Keys(64, "eaten", 64 * round)), Outcome::kStored)) return 2;
    board.rounds.store(round + 1);
  }
}

// Pages that a client touches first are its cgroup's: it is killed in the middle of a copy.
TEST_P(MemoryLimit, Client_killed_for_memory_is_given_back) {
  NEED_CGROUP(cgroup);
  ASSERT_TRUE(cgroup.limit(24 * kMiB));
  World world({.daemon = {"--capacity", "256MiB"}});
  ASSERT_TRUE(world.ok());
  ChildProcess eater([&](Board& board) { return write_for_ever(world.socket(), cgroup, board); });
  EXPECT_TRUE(eventually([&] { return cgroup.kills() > 0; }, 60))
      << eater.board().rounds.load() << " rounds, " << cgroup.usage() << " bytes";
  EXPECT_EQ(eater.wait_exit(), -1);  // by a signal
  world.expect_sound();
  const std::uint64_t rounds = eater.board().rounds.load();
  EXPECT_GT(rounds, 0U);
  world.expect_readable(Keys(64 * rounds, "eaten"));
}

// A container with node and engines in it, and less memory than was promised: whoever is killed,
// and however often, nobody reads a wrong byte, and with memory again there is a node again.
TEST_P(MemoryLimit, Node_killed_for_memory_comes_back) {
  NEED_CGROUP(cgroup);
  World world({.daemon = {"--capacity", "128MiB"}, .start = {.before = cgroup.enter()}});
  ASSERT_TRUE(world.ok());
  const auto server = static_cast<pid_t>(world.daemon().status().server_pid);
  const pid_t keeper = world.daemon().keeper_pid();
  const Keys kept(64, "kept");
  ASSERT_TRUE(all_are(world.worker().put(kept), Outcome::kStored));

  ASSERT_TRUE(cgroup.limit(cgroup.usage() + 8 * kMiB));
  {
    ChildProcess eater([&](Board& board) { return write_for_ever(world.socket(), cgroup, board); });
    EXPECT_TRUE(eventually([&] { return cgroup.kills() > 0; }, 60));
    const Got got = world.worker().get(kept);
    EXPECT_EQ(got.wrong, 0U);
    EXPECT_TRUE(cgroup.limit(1'024 * kMiB));
  }
  SCOPED_TRACE("keeper " + std::to_string(keeper) + ", server " + std::to_string(server) + ", " +
               std::to_string(cgroup.kills()) + " killed");
  if (::kill(keeper, 0) != 0 || !eventually([&] { return world.worker().client.ready(); }, 30)) {
    ASSERT_TRUE(world.start_another_daemon()) << world.daemon().log();
  } else {
    world.expect_readable(kept);
  }
  world.expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Cgroup, MemoryLimit,
                         ::testing::Values(MemoryCgroup::Version::kV1, MemoryCgroup::Version::kV2),
                         [](const auto& one) {
                           return one.param == MemoryCgroup::Version::kV1 ? "v1" : "v2";
                         });

// ---- locked memory ----

// Neither node nor client locks anything; only a GPU's driver would.
TEST(LockedMemory, Node_and_client_work_without_any) {
  // Root may lock what it likes unless it cannot get the capability any more.
  const std::string drop =
      ::geteuid() == 0
          ? "ulimit -l 0; set -- --bounding-set=-ipc_lock -- \"$0\" \"$@\"; exec setpriv \"$@\""
          : "ulimit -l 0";
  World world({.daemon = {"--touch", "on"}, .start = {.before = drop}});
  ASSERT_TRUE(world.ok()) << world.daemon().log();
  ChildProcess client([&](Board&) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) return 1;
    Worker me(Worker::options(world.socket(), "unlocked"));
    if (!me.usable()) return 2;
    const Keys keys(64, "unlocked");
    if (!all_are(me.put(keys), Outcome::kStored)) return 3;
    const Got got = me.get(keys);
    me.client.close();
    return got.pages == 64 && got.wrong == 0 ? 0 : 4;
  });
  EXPECT_EQ(client.wait_exit(), 0);
  world.expect_sound();
}

}  // namespace
}  // namespace orlop::limits_test
