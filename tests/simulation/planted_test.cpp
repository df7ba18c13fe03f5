// SPDX-License-Identifier: Apache-2.0
// Every planted bug must be found within a bounded number of seeds: by an oracle, or by a CHECK of
// a machine. Each runs in a process of its own, because a CHECK ends it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/planted.h"
#include "simulation.h"

namespace orlop::simulation {
namespace {

struct Found {
  std::uint64_t seeds = 0;  // run until it was found, that one included; 0: not found
  std::string how;
};

// In the child: announces every seed before it runs, then says what was found.
[[noreturn]] void search(PlantedBug bug, std::uint64_t most, std::FILE* out) {
  g_planted_bug = bug;
  std::freopen("/dev/null", "w", stderr);  // a CHECK's text; the parent reports the seed
  for (std::uint64_t seed = 1; seed <= most; ++seed) {
    std::fprintf(out, "seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(out);
    const Report report = run_simulation(seed);
    if (!report.failure) continue;
    std::fprintf(out, "found %s\n", report.failure->message.c_str());
    std::fflush(out);
    _exit(0);
  }
  _exit(1);
}

Found find(PlantedBug bug, std::uint64_t most) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    search(bug, most, fdopen(ends[1], "w"));
  }
  close(ends[1]);
  std::FILE* in = fdopen(ends[0], "r");
  Found found;
  char line[1024];
  while (std::fgets(line, sizeof line, in) != nullptr) {
    const std::string text(line, std::string_view(line).find('\n'));
    if (text.starts_with("seed ")) found.seeds = std::stoull(text.substr(5));
    if (text.starts_with("found ")) found.how = text.substr(6);
  }
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) found.how = "a CHECK of a machine";
  if (found.how.empty()) found.seeds = 0;
  return found;
}

// The most seeds a bug may take: ten times what it took when this was written, and more.
struct Expectation {
  PlantedBug bug;
  std::uint64_t most;
};

class PlantedBugs : public ::testing::TestWithParam<Expectation> {};

TEST_P(PlantedBugs, Is_found) {
  const Found found = find(GetParam().bug, GetParam().most);
  EXPECT_GT(found.seeds, 0U) << "not found in " << GetParam().most << " seeds";
  std::printf("%s: seed %llu: %s\n", std::string(to_string(GetParam().bug)).c_str(),
              static_cast<unsigned long long>(found.seeds), found.how.c_str());
  RecordProperty("seeds", std::to_string(found.seeds));
}

INSTANTIATE_TEST_SUITE_P(
    Simulation, PlantedBugs,
    ::testing::Values(Expectation{PlantedBug::kIdentityNotRechecked, 900},
                      Expectation{PlantedBug::kFreeWithoutScan, 100},
                      Expectation{PlantedBug::kChunkBitClearedByNonOwner, 100},
                      Expectation{PlantedBug::kPinnedGroupsNeverGivenBack, 100},
                      Expectation{PlantedBug::kDescriptorsBeforeKeeperAck, 100},
                      Expectation{PlantedBug::kPreparedOfLostAnswerLeaked, 100},
                      Expectation{PlantedBug::kPreparedFreedUnderWriter, 100},
                      Expectation{PlantedBug::kPostedCommitForgotten, 100},
                      Expectation{PlantedBug::kArenaReusedAtDeadline, 100},
                      Expectation{PlantedBug::kPlanEndedBeforeCopies, 100},
                      Expectation{PlantedBug::kRecoveryBySlot, 100},
                      Expectation{PlantedBug::kRemovedGroupResurrected, 100},
                      Expectation{PlantedBug::kDrainRefusesCommits, 300},
                      Expectation{PlantedBug::kDrainForgottenAtRecover, 300},
                      Expectation{PlantedBug::kGoneOfOtherNamespace, 10}),
    [](const auto& test) { return std::string(to_string(test.param.bug)); });

}  // namespace
}  // namespace orlop::simulation
