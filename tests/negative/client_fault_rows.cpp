// SPDX-License-Identifier: Apache-2.0
// Clients that are killed, stopped or forked, wherever they are: what they answered for stays, what
// they had reserved or pinned goes, others notice nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "child_process.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

using process_test::eventually;

enum class Point { kPrepared, kHandle, kPinned, kCommitPosted, kPuttingAndGetting, kAttaching };
constexpr Point kStandingPoints[] = {Point::kPrepared, Point::kHandle, Point::kPinned,
                                     Point::kCommitPosted};

const char* name_of(Point point) {
  switch (point) {
    case Point::kPrepared:
      return "prepared";
    case Point::kHandle:
      return "handle";
    case Point::kPinned:
      return "pinned";
    case Point::kCommitPosted:
      return "commit_posted";
    case Point::kPuttingAndGetting:
      return "putting_and_getting";
    case Point::kAttaching:
      return "attaching";
  }
  return "";
}

std::string prefix_of(int victim, const char* what) {
  return "v" + std::to_string(victim) + "-" + what;
}

// At its point the victim may have a child of its own, that knows it can use nothing.
void maybe_fork(bool fork_too, Worker& me, Board& board) {
  if (!fork_too) return;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = me.client.ping().error().code == ErrorCode::kForkedChild;
    if (!refused) board.wrong.fetch_add(1);
    board.rounds.store(1);
    for (;;) ::pause();
  }
  board.forked.store(static_cast<std::uint32_t>(child));
  while (board.rounds.load() == 0) ::usleep(1'000);
}

// Stands at the point until told to go on, then ends what it began and everything else.
int stand(Worker& me, Point point, int victim, bool fork_too, Board& board) {
  const Keys there(4, prefix_of(victim, "there")), writing(4, prefix_of(victim, "writing"));
  if (!all_are(me.put(there), Outcome::kStored)) return 2;
  auto plan = me.client.put_start(me.ns, writing);
  auto handle = me.client.get_start(me.ns, there);
  std::optional<ReadPlan> reading;
  Future future;
  if (!plan || plan->prepared() != 4 || !handle) return 3;
  for (std::size_t i = 0; i < 2; ++i)
    if (!plan->copy_in(i, page_of(writing[i]))) return 4;
  if (point != Point::kPrepared) {
    for (std::size_t i = 2; i < 4; ++i)
      if (!plan->copy_in(i, page_of(writing[i]))) return 5;
    future = me.client.put_commit(*plan).value_or(Future{});
    if (point != Point::kCommitPosted && !future.wait(kPatience)) return 6;
  }
  if (point == Point::kPinned) {
    auto transferred = me.client.get_transfer(*handle);
    if (!transferred) return 7;
    reading.emplace(std::move(*transferred));
  }
  if (point == Point::kPrepared && !me.client.cancel_get(*handle)) return 8;
  maybe_fork(fork_too, me, board);
  board.arrive_and_wait();

  if (point == Point::kPrepared) {
    for (std::size_t i = 2; i < 4; ++i)
      if (!plan->copy_in(i, page_of(writing[i]))) return 9;
    future = me.client.put_commit(*plan).value_or(Future{});
  }
  const auto outcomes = future.wait(kPatience);
  if (!outcomes || !all_are(*outcomes, Outcome::kStored)) return 10;
  if (reading && Worker::wrong_pages(*reading, there) != 0) return 11;
  return 0;
}

// Puts and gets without end; board.rounds counts what was answered "stored".
int put_and_get(Worker& me, int victim, Board& board) {
  for (std::size_t round = 0; board.go.load() == 0; ++round) {
    const Keys keys(2, prefix_of(victim, "round"), 2 * round);
    if (!all_are(me.put(keys), Outcome::kStored)) return 2;
    board.rounds.store(round + 1);
    board.here.store(1);
    const Got got = me.get(keys);
    if (got.pages != 2 || got.wrong != 0) return 3;
  }
  return 0;
}

int attach_again_and_again(const std::string& socket, Board& board) {
  while (board.go.load() == 0) {
    Client client(Worker::options(socket, "attaching"));
    if (!client.wait_ready(kPatience)) return 2;
    board.rounds.fetch_add(1);
    board.here.store(1);
  }
  return 0;
}

int victim_main(const std::string& socket, Point point, int victim, bool fork_too, Board& board) {
  if (point == Point::kAttaching) return attach_again_and_again(socket, board);
  Worker me(Worker::options(socket, "victim" + std::to_string(victim)));
  if (!me.usable()) return 1;
  const int status = point == Point::kPuttingAndGetting ? put_and_get(me, victim, board)
                                                        : stand(me, point, victim, fork_too, board);
  me.client.close();
  return status;
}

struct Victim {
  Victim(World& in, Point at, bool fork_too = false)
      : world(in), point(at), number(next++), process([this, fork_too](Board& board) {
          return victim_main(world.socket(), point, number, fork_too, board);
        }) {
    EXPECT_TRUE(process.wait_here()) << name_of(point);
  }
  // Until it has done `more` rounds from here on.
  void wait_rounds(std::uint64_t more) {
    const std::uint64_t until = process.board().rounds.load() + more;
    EXPECT_TRUE(eventually([&] { return process.board().rounds.load() >= until; }));
  }
  World& world;
  Point point;
  int number;
  ChildProcess process;
  static inline int next = 0;
};

// Seconds from the proof of this victim's death to its reclamation, by the node's own clock: the
// test may be late, the node must not. Nothing when the log was rate-limited.
std::optional<double> reclaim_seconds(World& world, int victim) {
  const std::string log = world.daemon().log();
  const auto at = [&](const std::string& event) -> std::optional<double> {
    const std::string name = "name=victim" + std::to_string(victim);
    for (std::size_t i = 0; (i = log.find("event=" + event, i)) != std::string::npos; ++i) {
      const std::size_t begin = log.rfind('\n', i) + 1, end = log.find('\n', i);
      const std::string line = log.substr(begin, end - begin) + " ";
      if (line.find(name + " ") == std::string::npos) continue;
      const std::string time = line.substr(line.find('T') + 1, 15);  // 12:00:00.123456
      return std::stod(time.substr(0, 2)) * 3'600 + std::stod(time.substr(3, 2)) * 60 +
             std::stod(time.substr(6));
    }
    return std::nullopt;
  };
  const auto died = at("client_died"), reclaimed = at("client_reclaimed");
  if (!died || !reclaimed) return std::nullopt;
  return *reclaimed - *died + (*reclaimed < *died ? 86'400 : 0);  // over midnight
}

void expect_reclaimed(Victim& victim) {
  std::string left;
  EXPECT_TRUE(eventually([&] { return (left = victim.world.what_is_left()).empty(); }, 10))
      << name_of(victim.point) << ": " << left << victim.world.daemon().log();
  if (victim.point == Point::kAttaching) return;  // one name, many lives
  if (const auto seconds = reclaim_seconds(victim.world, victim.number)) {
    EXPECT_LT(*seconds, 1.0);
  }
}

// What it had been answered for is there; what it had not is there whole and right, or not at all.
void expect_kept(Victim& victim, bool finished = false) {
  Worker& worker = victim.world.worker();
  if (victim.point == Point::kAttaching) return;
  if (victim.point == Point::kPuttingAndGetting) {
    const std::uint64_t stored = 2 * victim.process.board().rounds.load();
    victim.world.expect_readable(Keys(stored, prefix_of(victim.number, "round")));
    return;
  }
  victim.world.expect_readable(Keys(4, prefix_of(victim.number, "there")));
  const Got got = worker.get(Keys(4, prefix_of(victim.number, "writing")));
  EXPECT_EQ(got.wrong, 0U);
  if (finished || victim.point == Point::kHandle || victim.point == Point::kPinned) {
    EXPECT_EQ(got.pages, 4U);
  } else if (victim.point == Point::kPrepared) {
    EXPECT_EQ(got.pages, 0U);
  }
}

void expect_others_served(World& world) {
  static std::size_t number = 0;
  const Keys keys(4, "meanwhile", number += 4);
  EXPECT_TRUE(all_are(world.worker().put(keys), Outcome::kStored));
  world.expect_readable(keys);
}

// ---- killed ----

Result<void> killed_standing(World& world, Point point) {
  Victim victim(world, point);
  victim.process.kill();
  expect_reclaimed(victim);
  // A log of its own, so nothing of it was held back.
  EXPECT_TRUE(reclaim_seconds(world, victim.number).has_value()) << world.daemon().log();
  expect_kept(victim);
  return {};
}

Result<void> killed_moving(World& world, Point point) {
  for (const std::uint64_t rounds : {0, 1, 2, 5, 11, 23}) {
    Victim victim(world, point);
    victim.wait_rounds(rounds);
    victim.process.kill();
    expect_reclaimed(victim);
    expect_kept(victim);
  }
  return {};
}

// Nobody is there to see the death: the next server does.
Result<void> killed_without_server(World& world) {
  const auto restarts = world.daemon().status().restarts;
  Victim victim(world, Point::kPrepared);
  world.daemon().kill_server();
  victim.process.kill();
  EXPECT_TRUE(world.daemon().wait_serving(restarts + 1)) << world.daemon().log();
  expect_reclaimed(victim);
  expect_kept(victim);
  return {};
}

// ---- stopped ----

Result<void> stopped_standing(World& world, Point point) {
  Victim victim(world, point);
  victim.process.signal(SIGSTOP);
  expect_others_served(world);
  if (point == Point::kPrepared) {
    // It lives, so what it writes is its own.
    const Keys writing(1, prefix_of(victim.number, "writing"));
    const auto outcomes = world.worker().put(writing);
    EXPECT_TRUE(all_are(outcomes, Outcome::kInFlight));
    EXPECT_EQ(world.daemon().metric("orlop_prepared_bytes"), 4 * kValueLen);
  }
  victim.process.signal(SIGCONT);
  victim.process.board().go.store(1);
  EXPECT_EQ(victim.process.wait_exit(), 0) << name_of(point);
  world.expect_readable(Keys(4, prefix_of(victim.number, "writing")));
  return {};
}

Result<void> stopped_moving(World& world, Point point) {
  Victim victim(world, point);
  for (int i = 0; i < 4; ++i) {
    victim.process.signal(SIGSTOP);
    expect_others_served(world);
    victim.process.signal(SIGCONT);
    victim.wait_rounds(1);
  }
  victim.process.board().go.store(1);
  EXPECT_EQ(victim.process.wait_exit(), 0) << name_of(point);
  expect_kept(victim);
  return {};
}

Result<void> stopped_and_killed(World& world) {
  for (const Point point : kStandingPoints) {
    Victim victim(world, point);
    victim.process.signal(SIGSTOP);
    expect_others_served(world);
    victim.process.kill();
    expect_reclaimed(victim);
    expect_kept(victim);
  }
  return {};
}

// Stopped through a restart of the server: comes back when it goes on, with its put.
Result<void> stopped_through_a_restart(World& world) {
  const auto restarts = world.daemon().status().restarts;
  Victim victim(world, Point::kPrepared);
  victim.process.signal(SIGSTOP);
  world.daemon().kill_server();
  EXPECT_TRUE(world.daemon().wait_serving(restarts + 1)) << world.daemon().log();
  expect_others_served(world);
  victim.process.signal(SIGCONT);
  victim.process.board().go.store(1);
  EXPECT_EQ(victim.process.wait_exit(), 0);
  world.expect_readable(Keys(4, prefix_of(victim.number, "writing")));
  return {};
}

// ---- forked ----

// The parent goes on as if nothing had been.
Result<void> forked_and_goes_on(World& world) {
  for (const Point point : kStandingPoints) {
    Victim victim(world, point, true);
    victim.process.board().go.store(1);
    EXPECT_EQ(victim.process.wait_exit(), 0) << name_of(point);
    EXPECT_EQ(victim.process.board().wrong.load(), 0U);
    expect_kept(victim, true);
  }
  return {};
}

// The parent dies, its child lives: pins go, but memory that the child might still write through a
// device stays until it is gone, too.
Result<void> forked_and_killed(World& world) {
  for (const Point point : kStandingPoints) {
    Victim victim(world, point, true);
    const double died = world.daemon().metric("orlop_client_deaths_total");
    victim.process.kill();
    EXPECT_TRUE(eventually(
        [&] { return world.daemon().metric("orlop_client_deaths_total") == died + 1; }, 10));
    expect_others_served(world);
    if (point == Point::kPrepared) {
      EXPECT_EQ(world.daemon().metric("orlop_prepared_bytes"), 4 * kValueLen);
    }
    ::kill(static_cast<pid_t>(victim.process.board().forked.load()), SIGKILL);
    // From the death to the reclamation it is the child's time, not the node's.
    EXPECT_TRUE(eventually([&] { return world.what_is_left().empty(); }, 10))
        << name_of(point) << ": " << world.what_is_left();
    expect_kept(victim);
  }
  return {};
}

Row row(Item item, const std::string& name, std::function<Result<void>(World&)> act) {
  return {item, name, {}, {}, std::move(act)};
}

}  // namespace

Rows client_fault_rows() {
  using enum Item;
  Rows rows;
  for (const Point point : kStandingPoints) {
    const std::string at = name_of(point);
    rows.push_back(row(kClientKilled, "killed_" + at,
                       [point](World& world) { return killed_standing(world, point); }));
    rows.back().world = WorldOptions{};
    rows.push_back(row(kClientStopped, "stopped_" + at,
                       [point](World& world) { return stopped_standing(world, point); }));
  }
  for (const Point point : {Point::kPuttingAndGetting, Point::kAttaching}) {
    const std::string at = name_of(point);
    rows.push_back(row(kClientKilled, "killed_" + at,
                       [point](World& world) { return killed_moving(world, point); }));
    rows.push_back(row(kClientStopped, "stopped_" + at,
                       [point](World& world) { return stopped_moving(world, point); }));
  }
  rows.push_back(row(kClientKilled, "killed_without_server", killed_without_server));
  rows.push_back(row(kClientStopped, "stopped_and_killed", stopped_and_killed));
  rows.push_back(row(kClientStopped, "stopped_through_a_restart", stopped_through_a_restart));
  rows.push_back(row(kClientForked, "forked_and_goes_on", forked_and_goes_on));
  rows.push_back(row(kClientForked, "forked_and_killed", forked_and_killed));
  return rows;
}

}  // namespace orlop::negative_test
