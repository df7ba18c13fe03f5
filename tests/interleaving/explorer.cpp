// SPDX-License-Identifier: Apache-2.0
#include "explorer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "choosers.h"
#include "machine.h"

namespace orlop::interleaving {
namespace {

// Runs that branch at every access, to learn which addresses fibers share before counting begins.
constexpr std::uint64_t kLearningRuns = 64;
// What is wrong must be found within so many.
constexpr std::uint64_t kFoundWithin = 10'000;
constexpr unsigned kDeepestBudget = 8;  // with ORLOP_EXPLORE_SCHEDULES
constexpr std::size_t kTraceLines = 80;

// Says at the end of a test program how many schedules it has run.
struct Total {
  std::uint64_t schedules = 0;
  Total() = default;
  Total(const Total&) = delete;
  Total& operator=(const Total&) = delete;
  ~Total() {
    if (schedules > 0)
      std::printf("[ explored ] in all %llu schedules\n",
                  static_cast<unsigned long long>(schedules));
  }
};
Total g_total;

std::uint64_t schedules_asked_for() {
  const char* text = std::getenv("ORLOP_EXPLORE_SCHEDULES");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

class Search {
 public:
  Search(Program& program, const Limits& limits) : machine_(program), limits_(limits) {}

  Report run() {
    learn();
    for (unsigned budget = 0; budget <= limits_.budget && !report_.finding; ++budget)
      report_.complete = exhaust(budget, limits_.max_schedules);
    walk(limits_.random_walks);
    const std::uint64_t asked = schedules_asked_for();
    for (unsigned budget = limits_.budget + 1; budget <= kDeepestBudget; ++budget) {
      if (report_.finding || report_.schedules >= asked) break;
      exhaust(budget, asked / 2);
    }
    if (report_.schedules < asked) walk(asked - report_.schedules);
    return report_;
  }

 private:
  bool found(const std::optional<std::string>& failure, unsigned budget) {
    ++report_.schedules;
    report_.longest = std::max(report_.longest, machine_.branches());
    if (failure) report_.finding = Finding{*failure, to_string(machine_.taken()), budget};
    return failure.has_value();
  }

  void learn() {
    machine_.branch_everywhere(true);
    std::uint64_t expected = 1;
    for (std::uint64_t i = 0; i < kLearningRuns; ++i) {
      RandomWalk walk(limits_.seed + i, expected);
      machine_.run(walk);  // a failure here is found again, with fewer deviations
      expected = std::max(expected, machine_.branches());
    }
    machine_.branch_everywhere(false);
  }

  // True if all schedules were run; starts again when a run showed a place where two fibers meet
  // that was unknown, for earlier runs did not branch there.
  bool exhaust(unsigned budget, std::uint64_t max_schedules) {
    DepthFirst chooser(budget);
    std::uint64_t meetings = machine_.addresses().meetings();
    const std::uint64_t end = report_.schedules + max_schedules;
    while (report_.schedules < end) {
      if (found(machine_.run(chooser), budget)) return false;
      if (machine_.addresses().meetings() != meetings) {
        meetings = machine_.addresses().meetings();
        chooser.restart();
        continue;
      }
      if (!chooser.next()) return true;
    }
    return false;
  }

  void walk(std::uint64_t walks) {
    for (std::uint64_t i = 0; i < walks && !report_.finding; ++i) {
      RandomWalk walk(limits_.seed + report_.schedules, report_.longest);
      found(machine_.run(walk), 0);
      ++report_.random_walks;
    }
  }

  Machine machine_;
  Limits limits_;
  Report report_;
};

Report measured(const char* name, Program& program, const Limits& limits) {
  const auto begin = std::chrono::steady_clock::now();
  const Report report = explore(program, limits);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf(
      "[ explored ] %s: %llu schedules (%llu random), budget %u %s, up to %llu branches, %.1f s\n",
      name, static_cast<unsigned long long>(report.schedules),
      static_cast<unsigned long long>(report.random_walks), limits.budget,
      report.finding    ? "stopped"
      : report.complete ? "complete"
                        : "NOT COMPLETE",
      static_cast<unsigned long long>(report.longest), seconds);
  g_total.schedules += report.schedules;
  // For tests/simulation/planted.py, which adds up and makes the table.
  ::testing::Test::RecordProperty(std::string("schedules of ") + name,
                                  std::to_string(report.schedules));
  if (report.finding) {
    std::printf("[  found   ] %s\n[ schedule ] %s\n", report.finding->what.c_str(),
                report.finding->schedule.c_str());
  }
  return report;
}

// A finding must be a property of the schedule alone.
void expect_replays(Program& program, const Finding& finding, bool print_trace) {
  std::string trace;
  const auto again = replay(program, finding.schedule, &trace);
  EXPECT_TRUE(again.has_value()) << "the schedule does not replay: " << finding.schedule;
  if (print_trace || !again) std::printf("%s", trace.c_str());
}

bool replay_asked_for(Program& program) {
  const char* schedule = std::getenv("ORLOP_EXPLORE_REPLAY");
  if (schedule == nullptr) return false;
  std::string trace;
  const auto failure = replay(program, schedule, &trace);
  std::printf("%s", trace.c_str());
  EXPECT_FALSE(failure.has_value()) << *failure;
  return true;
}

class PlantedForNow {
 public:
  explicit PlantedForNow(PlantedBug bug) { g_planted_bug = bug; }
  ~PlantedForNow() { g_planted_bug = PlantedBug::kNone; }
  PlantedForNow(const PlantedForNow&) = delete;
  PlantedForNow& operator=(const PlantedForNow&) = delete;
};

}  // namespace

Report explore(Program& program, const Limits& limits) {
  return Search(program, limits).run();
}

std::optional<std::string> replay(Program& program, const std::string& schedule,
                                  std::string* trace) {
  const auto parsed = parse_schedule(schedule);
  CHECK(parsed.has_value(), "not a schedule");
  Machine machine(program);
  machine.branch_everywhere(true);
  std::vector<std::string> lines;
  machine.trace_into(&lines);
  Replay chooser(*parsed);
  const auto failure = machine.run(chooser);
  const std::size_t from = lines.size() > kTraceLines ? lines.size() - kTraceLines : 0;
  for (std::size_t i = from; i < lines.size(); ++i) *trace += lines[i] + "\n";
  if (!chooser.followed()) *trace += "       -- the rest of the schedule does not fit\n";
  return failure;
}

Report expect_clean(const char* name, Program& program, const Limits& limits) {
  if (replay_asked_for(program)) return {};
  Report report = measured(name, program, limits);
  EXPECT_TRUE(report.finding.has_value() || report.complete)
      << name << ": more than " << limits.max_schedules << " schedules";
  EXPECT_TRUE(report.finding.has_value() || report.schedules >= limits.at_least)
      << name << ": " << report.schedules << " schedules, at least " << limits.at_least
      << " were explored when this was written; what is no longer reached?";
  if (report.finding) {
    ADD_FAILURE() << name << ": " << report.finding->what;
    expect_replays(program, *report.finding, true);
  }
  return report;
}

Report expect_broken(const char* name, Program& program, const Limits& limits) {
  if (replay_asked_for(program)) return {};
  Report report = measured(name, program, limits);
  EXPECT_TRUE(report.finding.has_value()) << name << ": nothing found";
  EXPECT_LE(report.schedules, kFoundWithin) << name;
  if (report.finding) expect_replays(program, *report.finding, false);
  return report;
}

Report expect_found(const char* name, Program& program, PlantedBug bug, const Limits& limits) {
  Report report;
  {
    const PlantedForNow planted(bug);
    report = expect_broken(name, program, limits);
  }
  if (report.finding) {
    ::testing::Test::RecordProperty("planted_bug", std::string(to_string(bug)));
    ::testing::Test::RecordProperty("tries", std::to_string(report.schedules));
    ::testing::Test::RecordProperty("unit", "schedules");
    ::testing::Test::RecordProperty("oracle", report.finding->what);
    std::string trace;
    const auto failure = replay(program, report.finding->schedule, &trace);
    EXPECT_FALSE(failure.has_value()) << "without the bug: " << *failure << "\n" << trace;
  }
  return report;
}

}  // namespace orlop::interleaving
