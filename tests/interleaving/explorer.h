// SPDX-License-Identifier: Apache-2.0
// Looks for a schedule that breaks a program.
//
// First every schedule with at most 0, 1, ... `budget` deviations, depth first (a preemption costs
// 1, a store that stays in the buffer across a switch 1 more, a late drain 1, an abandonment 1; who
// runs after a fiber has ended costs nothing). Then random walks without a budget. The first
// failing schedule of the lowest budget ends the search and is printed with its trace.
//
// Environment:
//   ORLOP_EXPLORE_SCHEDULES=N  after the default budget, go on with larger ones and random walks
//                              until N schedules have run, in each test
//   ORLOP_EXPLORE_REPLAY=TEXT  run this one schedule and print its trace
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/planted.h"
#include "program.h"

namespace orlop::interleaving {

struct Limits {
  unsigned budget = 3;
  std::uint64_t max_schedules = 300'000;  // a clean exploration must end before
  std::uint64_t random_walks = 2'000;
  std::uint64_t seed = 1;
  // The program's share of the 200,000 schedules of every CI run: expect_clean() fails below it,
  // and floors.py adds up what the tests promise.
  std::uint64_t at_least = 0;
};

struct Finding {
  std::string what;
  std::string schedule;  // parse_schedule() reads it
  unsigned budget = 0;   // found with so many deviations; 0 also for random walks
};

struct Report {
  std::uint64_t schedules = 0;     // run, all together
  std::uint64_t random_walks = 0;  // of them
  bool complete = false;           // all schedules within the budget were run
  std::uint64_t longest = 0;       // branches in one schedule
  std::optional<Finding> finding;
};

Report explore(Program& program, const Limits& limits);
// Runs one schedule; the failure if it fails. Appends the trace to *trace.
std::optional<std::string> replay(Program& program, const std::string& schedule,
                                  std::string* trace);

// What the tests call: prints one line, and the schedule of a finding.
// Fails the test if a schedule breaks the program or the exploration did not end.
Report expect_clean(const char* name, Program& program, const Limits& limits = {});
// Turns the planted bug on, and fails the test unless one of the first 10,000 schedules breaks the
// program, replays, and is harmless without the bug.
Report expect_found(const char* name, Program& program, PlantedBug bug, const Limits& limits = {});
// The same for a program that is wrong by itself.
Report expect_broken(const char* name, Program& program, const Limits& limits = {});

}  // namespace orlop::interleaving
