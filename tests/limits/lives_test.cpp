// SPDX-License-Identifier: Apache-2.0
// Thousands of clients one after the other leave no process larger than before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "resources.h"
#include "world.h"

namespace orlop::limits_test {
namespace {

using namespace negative_test;
using process_test::eventually;

// A few seconds of them; ORLOP_TEST_LIVES sets another number.
constexpr unsigned kLives = 10'000;
// Until caches, pools and the allocator's arenas are as large as they become.
constexpr unsigned kWarmUp = 100;
// What an allocator may keep; 100 bytes lost in each life are as much.
constexpr std::uint64_t kResidentSlackKib = 1'024;

unsigned lives() {
  const char* text = ::getenv("ORLOP_TEST_LIVES");
  return text == nullptr ? kLives : static_cast<unsigned>(std::stoul(text));
}

void live(World& world, unsigned number) {
  Worker worker(Worker::options(world.socket(), "life" + std::to_string(number)));
  ASSERT_TRUE(worker.usable()) << number << ": " << worker.last_error().message;
  if (number % 4 != 0) return;  // only attaches
  const Keys keys(2, "life", number % 64);
  const auto outcomes = worker.put(keys);
  ASSERT_TRUE(all_are(outcomes, Outcome::kStored) || all_are(outcomes, Outcome::kExists) ||
              outcomes.size() == 2)
      << number;
  const Got got = worker.get(keys);
  ASSERT_EQ(got.pages, 2U) << number;
  ASSERT_EQ(got.wrong, 0U) << number;
  if (number % 8 == 0) worker.client.close();  // else by its destructor
}

// A connection of ours that the process has not closed yet is no growth; a lost descriptor stays.
void expect_no_growth(const char* who, const Footprint& before, pid_t process) {
  Footprint after;
  EXPECT_TRUE(eventually([&] {
    after = footprint_of(process);
    return after.descriptors <= before.descriptors;
  })) << who
      << ": " << to_string(before) << " -> " << to_string(after);
  EXPECT_LE(after.maps, before.maps + 2)
      << who << ": " << to_string(before) << " -> " << to_string(after);
  EXPECT_LE(after.resident_kib, before.resident_kib + kResidentSlackKib)
      << who << ": " << to_string(before) << " -> " << to_string(after);
}

TEST(Lives, Thousands_of_attaches_leave_no_process_larger) {
  World world;
  ASSERT_TRUE(world.ok());
  const pid_t server = static_cast<pid_t>(world.daemon().status().server_pid);
  const pid_t keeper = world.daemon().keeper_pid();
  const auto settled = [&] {
    EXPECT_TRUE(eventually([&] { return world.daemon().metric("orlop_clients_known") == 1; }));
  };
  unsigned number = 0;
  while (number < kWarmUp && !::testing::Test::HasFatalFailure()) live(world, number++);
  settled();
  const auto keeper_before = footprint_of(keeper), server_before = footprint_of(server),
             client_before = footprint_of(::getpid());
  while (number < kWarmUp + lives() && !::testing::Test::HasFatalFailure()) live(world, number++);
  settled();
  expect_no_growth("keeper", keeper_before, keeper);
  expect_no_growth("server", server_before, server);
  expect_no_growth("client", client_before, ::getpid());
  EXPECT_EQ(world.daemon().status().restarts, 0U);
  world.expect_sound();
}

}  // namespace
}  // namespace orlop::limits_test
