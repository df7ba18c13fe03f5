// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/server_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orlop::protocol {
namespace {

namespace fx = life_effect;
using State = ServerLife::State;
using ::testing::HasSubstr;

constexpr MonoNs kSecond = kNsPerSecond;

// Names of the effects in order: "start:good kill".
std::string names(const LifeEffects& effects) {
  std::string out;
  const auto add = [&](const std::string& name) { out += (out.empty() ? "" : " ") + name; };
  for (const LifeEffect& effect : effects) {
    if (const auto* start = std::get_if<fx::Start>(&effect))
      add(start->program == Program::kGood ? "start:good" : "start:candidate");
    if (std::holds_alternative<fx::Stop>(effect)) add("stop");
    if (std::holds_alternative<fx::Kill>(effect)) add("kill");
    if (std::holds_alternative<fx::Ping>(effect)) add("ping");
    if (std::holds_alternative<fx::Check>(effect)) add("check");
    if (std::holds_alternative<fx::EndCheck>(effect)) add("end_check");
    if (std::holds_alternative<fx::Adopt>(effect)) add("adopt");
    if (std::holds_alternative<fx::Discard>(effect)) add("discard");
    if (std::holds_alternative<fx::NewMemory>(effect)) add("new_memory");
    if (const auto* report = std::get_if<fx::Report>(&effect))
      add(std::string(to_string(report->upgrade.outcome)));
    if (const auto* over = std::get_if<fx::Over>(&effect)) add(over->error ? "failed" : "over");
  }
  return out;
}

// A life whose first server serves well, at time 10 s.
ServerLife serving_life() {
  ServerLife life({}, {}, "1.0");
  EXPECT_EQ(names(life.begin(0)), "start:good");
  EXPECT_EQ(names(life.serving(0)), "");
  for (MonoNs now = kSecond; now <= 10 * kSecond; now += kSecond) {
    EXPECT_EQ(names(life.tick(now)), "ping");
    EXPECT_EQ(names(life.pong(now)), "");
  }
  return life;
}
// One whose candidate was checked and whose old server is dead.
ServerLife trying_life() {
  ServerLife life = serving_life();
  EXPECT_EQ(names(life.reload_signal(10 * kSecond)), "check");
  EXPECT_EQ(names(life.checked({true, "1.1", {}}, 10 * kSecond)), "stop");
  EXPECT_EQ(life.state(), State::kReplacing);
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 10 * kSecond)), "start:candidate");
  return life;
}

TEST(ServerLife, First_restart_is_immediate_then_backs_off) {
  ServerLife life({}, {}, "1.0");
  life.begin(0);
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 0)), "");
  EXPECT_EQ(names(life.tick(0)), "start:good");
  life.ended(ServerEnd::kOther, 0);
  EXPECT_EQ(life.next_deadline(), 100 * kNsPerMs);
  EXPECT_EQ(names(life.tick(99 * kNsPerMs)), "");
  EXPECT_EQ(names(life.tick(100 * kNsPerMs)), "start:good");
  for (int i = 0; i < 20; ++i) {
    life.ended(ServerEnd::kOther, kSecond);
    life.tick(100 * kSecond);
  }
  life.ended(ServerEnd::kOther, 200 * kSecond);
  EXPECT_EQ(life.next_deadline(), 205 * kSecond);
  EXPECT_EQ(life.restarts(), 23u);
}

TEST(ServerLife, Served_for_a_second_restarts_at_once_again) {
  ServerLife life({}, {}, "1.0");
  life.begin(0);
  life.ended(ServerEnd::kOther, 0);
  life.tick(0);
  life.serving(0);
  life.ended(ServerEnd::kOther, kSecond);
  EXPECT_EQ(life.next_deadline(), kSecond);
}

TEST(ServerLife, Configuration_refused_at_the_first_start_ends_the_keeper) {
  ServerLife life({}, {}, "1.0");
  life.begin(0);
  EXPECT_EQ(names(life.ended(ServerEnd::kBadConfiguration, 0)), "failed");
  EXPECT_EQ(life.state(), State::kOver);
  ServerLife later = serving_life();
  EXPECT_EQ(names(later.ended(ServerEnd::kBadConfiguration, 10 * kSecond)), "");
  EXPECT_EQ(later.state(), State::kWaiting);
}

TEST(ServerLife, Unreadable_segment_gets_new_memory_before_the_next_start) {
  ServerLife life = serving_life();
  EXPECT_EQ(names(life.ended(ServerEnd::kSegmentUnreadable, 10 * kSecond)), "new_memory");
  EXPECT_EQ(names(life.tick(10 * kSecond)), "start:good");
}

TEST(ServerLife, Stop_asks_then_kills) {
  ServerLife life = serving_life();
  EXPECT_EQ(names(life.stop_signal(10 * kSecond)), "stop");
  EXPECT_EQ(names(life.tick(15 * kSecond)), "kill");
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 15 * kSecond)), "over");
  ServerLife twice = serving_life();
  twice.stop_signal(10 * kSecond);
  EXPECT_EQ(names(twice.stop_signal(10 * kSecond)), "kill");
}

TEST(ServerLife, Server_that_ended_its_socket_gets_a_moment_a_broken_one_none) {
  ServerLife life = serving_life();
  EXPECT_EQ(names(life.link_ended(true, 10 * kSecond)), "");
  EXPECT_EQ(names(life.tick(12 * kSecond)), "kill");
  ServerLife broken = serving_life();
  EXPECT_EQ(names(broken.link_ended(false, 10 * kSecond)), "kill");
}

TEST(ServerLife, Hung_server_is_killed_and_a_start_that_takes_for_ever_too) {
  ServerLife life = serving_life();
  EXPECT_EQ(names(life.tick(11 * kSecond)), "ping");
  EXPECT_EQ(names(life.tick(41 * kSecond - 1)), "");
  EXPECT_EQ(names(life.tick(41 * kSecond)), "kill");
  EXPECT_EQ(names(life.tick(50 * kSecond)), "");  // once
  life.ended(ServerEnd::kOther, 50 * kSecond);
  EXPECT_EQ(names(life.tick(50 * kSecond)), "start:good");
  EXPECT_EQ(names(life.tick(170 * kSecond)), "kill");
}

TEST(ServerLife, Upgrade_succeeds_when_the_new_server_has_served_for_a_second) {
  ServerLife life = trying_life();
  EXPECT_EQ(names(life.serving(11 * kSecond)), "ping");
  EXPECT_EQ(names(life.pong(11 * kSecond)), "");
  EXPECT_EQ(life.next_deadline(), 12 * kSecond);
  EXPECT_EQ(names(life.tick(12 * kSecond)), "adopt succeeded ping");
  EXPECT_EQ(life.last_upgrade().from, "1.0");
  EXPECT_EQ(life.last_upgrade().to, "1.1");
  EXPECT_EQ(life.last_upgrade().succeeded, 1u);
  EXPECT_FALSE(life.upgrading());
  life.ended(ServerEnd::kOther, 20 * kSecond);
  EXPECT_EQ(names(life.tick(20 * kSecond)), "start:good");  // which is the new one now
}

TEST(ServerLife, Refused_program_leaves_the_server_alone) {
  ServerLife life = serving_life();
  life.reload_signal(10 * kSecond);
  EXPECT_EQ(names(life.checked({false, "2.0", "ABI 3"}, 10 * kSecond)), "discard refused");
  EXPECT_EQ(life.state(), State::kServing);
  EXPECT_EQ(life.last_upgrade().reason, "ABI 3");
  EXPECT_EQ(life.last_upgrade().from, "1.0");
  EXPECT_EQ(life.last_upgrade().to, "2.0");
}

TEST(ServerLife, Preflight_that_hangs_is_refused) {
  ServerLife life = serving_life();
  life.reload_signal(10 * kSecond);
  EXPECT_EQ(names(life.tick(20 * kSecond)), "end_check discard refused ping");
  EXPECT_EQ(names(life.checked({true, "1.1", {}}, 20 * kSecond)), "");  // came too late
  EXPECT_EQ(life.state(), State::kServing);
}

// Every point at which the new server may fail leads back to the old program, at once.
TEST(ServerLife, Candidate_that_fails_anywhere_is_followed_by_the_old_program) {
  struct Case {
    const char* name;
    void (*fail)(ServerLife&);
    ServerEnd end;
    const char* reason;
  };
  const Case cases[] = {
      {"exits at once", [](ServerLife&) {}, ServerEnd::kOther, "did not serve"},
      {"configuration", [](ServerLife&) {}, ServerEnd::kBadConfiguration, "did not serve"},
      {"condemns memory", [](ServerLife&) {}, ServerEnd::kSegmentUnreadable, "did not serve"},
      {"never serves", [](ServerLife& l) { EXPECT_EQ(names(l.tick(130 * kSecond)), "kill"); },
       ServerEnd::kOther, "did not serve in time"},
      {"link breaks",
       [](ServerLife& l) { EXPECT_EQ(names(l.link_ended(false, 11 * kSecond)), "kill"); },
       ServerEnd::kOther, "did not serve"},
      {"dies soon", [](ServerLife& l) { l.serving(10 * kSecond); }, ServerEnd::kOther, "on trial"},
  };
  for (const Case& one : cases) {
    ServerLife life = trying_life();
    one.fail(life);
    EXPECT_EQ(names(life.ended(one.end, 10 * kSecond + kSecond / 2)),
              "start:good discard rolled_back")
        << one.name;
    EXPECT_THAT(life.last_upgrade().reason, HasSubstr(one.reason)) << one.name;
    EXPECT_EQ(life.last_upgrade().from, "1.0");
    EXPECT_FALSE(life.upgrading());
  }
  ServerLife life = trying_life();
  EXPECT_EQ(names(life.start_failed({ErrorCode::kSystem, "fork"}, 10 * kSecond)),
            "start:good discard rolled_back");
}

TEST(ServerLife, Candidate_whose_link_ended_is_not_adopted) {
  ServerLife life = trying_life();
  life.serving(10 * kSecond);
  life.link_ended(true, 10 * kSecond + 1);
  EXPECT_EQ(names(life.tick(11 * kSecond + kSecond / 2)), "");
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 11 * kSecond + kSecond / 2)),
            "start:good discard rolled_back");
}

// It said that it serves, and answers nothing.
TEST(ServerLife, Candidate_that_answers_no_ping_is_not_adopted) {
  ServerLife life = trying_life();
  EXPECT_EQ(names(life.serving(11 * kSecond)), "ping");
  EXPECT_EQ(names(life.tick(40 * kSecond)), "");
  EXPECT_EQ(life.next_deadline(), 41 * kSecond);
  EXPECT_EQ(names(life.tick(41 * kSecond)), "kill");
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 41 * kSecond)), "start:good discard rolled_back");
  EXPECT_THAT(life.last_upgrade().reason, HasSubstr("did not answer a ping"));
}

// Even where a server may stand in a debugger for ever.
TEST(ServerLife, Trial_ends_without_a_hang_limit_too) {
  ServerLife life({.hang_limit = 0}, {}, "1.0");
  life.begin(0);
  life.serving(0);
  EXPECT_EQ(names(life.tick(kSecond)), "ping");
  EXPECT_EQ(names(life.tick(1'000 * kSecond)), "");
  life.reload_signal(1'000 * kSecond);
  life.checked({true, "1.1", {}}, 1'000 * kSecond);
  life.ended(ServerEnd::kOther, 1'000 * kSecond);
  EXPECT_EQ(names(life.serving(1'000 * kSecond)), "ping");
  EXPECT_EQ(names(life.tick(1'120 * kSecond - 1)), "");
  EXPECT_EQ(names(life.tick(1'120 * kSecond)), "kill");
}

// A keeper that took over has contents to lose, though no server of its own has served yet.
TEST(ServerLife, Taken_over_segment_is_served_whatever_its_first_server_does) {
  const auto taken_over = [] {
    ServerLife life({}, {4, true}, "1.0");
    EXPECT_EQ(names(life.begin(0)), "start:good");
    return life;
  };
  ServerLife not_started = taken_over();
  EXPECT_EQ(names(not_started.start_failed({ErrorCode::kSystem, "fork"}, 0)), "");
  EXPECT_EQ(not_started.state(), State::kWaiting);
  EXPECT_EQ(names(not_started.tick(5 * kSecond)), "start:good");
  ServerLife refused = taken_over();
  EXPECT_EQ(names(refused.ended(ServerEnd::kBadConfiguration, 0)), "");
  EXPECT_EQ(names(refused.tick(0)), "start:good");
  EXPECT_EQ(refused.restarts(), 5u);
  // A new one's is over: nothing can be lost, and somebody should see it.
  ServerLife fresh({}, {}, "1.0");
  fresh.begin(0);
  EXPECT_EQ(names(fresh.start_failed({ErrorCode::kSystem, "fork"}, 0)), "failed");
}

TEST(ServerLife, Old_server_that_does_not_stop_is_killed) {
  ServerLife life = serving_life();
  life.reload_signal(10 * kSecond);
  life.checked({true, "1.1", {}}, 10 * kSecond);
  EXPECT_EQ(names(life.serving(11 * kSecond)), "");  // said before it read the stop
  EXPECT_EQ(life.state(), State::kReplacing);
  EXPECT_EQ(names(life.tick(15 * kSecond)), "kill");
  EXPECT_EQ(names(life.ended(ServerEnd::kOther, 15 * kSecond)), "start:candidate");
}

// The old server may die by itself at any point before.
TEST(ServerLife, Old_server_dead_during_the_check_then_the_candidate_follows) {
  ServerLife life = serving_life();
  life.reload_signal(10 * kSecond);
  life.ended(ServerEnd::kOther, 10 * kSecond);
  EXPECT_EQ(names(life.checked({true, "1.1", {}}, 10 * kSecond)), "start:candidate");
  ServerLife restarted = serving_life();
  restarted.reload_signal(10 * kSecond);
  restarted.ended(ServerEnd::kOther, 10 * kSecond);
  EXPECT_EQ(names(restarted.tick(10 * kSecond)), "start:good");
  EXPECT_EQ(names(restarted.checked({true, "1.1", {}}, 10 * kSecond)), "stop");
}

TEST(ServerLife, Second_hang_up_signal_is_carried_out_after_the_first) {
  ServerLife life = serving_life();
  life.reload_signal(10 * kSecond);
  EXPECT_EQ(names(life.reload_signal(10 * kSecond)), "");
  EXPECT_EQ(names(life.checked({false, {}, "no"}, 10 * kSecond)), "discard refused check");
  ServerLife trying = trying_life();
  EXPECT_EQ(names(trying.reload_signal(10 * kSecond)), "");
  trying.serving(10 * kSecond);
  trying.pong(10 * kSecond);
  EXPECT_EQ(names(trying.tick(11 * kSecond)), "adopt succeeded check ping");
}

TEST(ServerLife, Stop_signal_ends_an_upgrade_at_every_point) {
  ServerLife checking = serving_life();
  checking.reload_signal(10 * kSecond);
  EXPECT_EQ(names(checking.stop_signal(10 * kSecond)), "end_check discard stop");
  EXPECT_EQ(names(checking.ended(ServerEnd::kOther, 10 * kSecond)), "over");

  ServerLife replacing = serving_life();
  replacing.reload_signal(10 * kSecond);
  replacing.checked({true, "1.1", {}}, 10 * kSecond);
  EXPECT_EQ(names(replacing.stop_signal(10 * kSecond)), "discard");
  EXPECT_EQ(names(replacing.ended(ServerEnd::kOther, 10 * kSecond)), "over");

  ServerLife trying = trying_life();
  EXPECT_EQ(names(trying.stop_signal(10 * kSecond)), "discard stop");
  EXPECT_EQ(names(trying.ended(ServerEnd::kOther, 10 * kSecond)), "over");
  EXPECT_EQ(names(trying.reload_signal(10 * kSecond)), "");
}

}  // namespace
}  // namespace orlop::protocol
