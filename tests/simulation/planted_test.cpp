// SPDX-License-Identifier: Apache-2.0
// Every planted bug of a host must be found by an oracle within 300 seeds. A CHECK of the product
// that comes first is a finding too, but of another kind: such seeds are counted and passed over.
//
// Run by planted.py, which makes the table of docs/protocol/planted-bugs.md of what is recorded
// here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/planted.h"
#include "isolated_run.h"

namespace orlop::simulation {
namespace {

constexpr std::uint64_t kMostSeeds = 300;

// What no run of a host can show; each is found by the test beside it.
constexpr std::array kFoundElsewhere = {
    // Needs two cores, or a schedule that nested steps do not reach: tests/interleaving.
    PlantedBug::kFenceMissing,
    PlantedBug::kIdentityNotRechecked,
    PlantedBug::kGenerationNotCompared,
    PlantedBug::kFreePagePinned,
    PlantedBug::kWakerWithoutFence,
    PlantedBug::kSleeperLooksFirst,
    PlantedBug::kRingTailBeforeMessage,
    PlantedBug::kRingCellFreedBeforeCopy,
    PlantedBug::kLostTouchesUncounted,
    PlantedBug::kStreamWithoutFence,
    // A keeper never forgets a client that has memory: group_test hands over less than there is.
    PlantedBug::kPreparedOfDeadOwnerKept,
    // Upgrades, keepers that are killed: src/protocol/attach.
    PlantedBug::kServerBesideOldOne,
    PlantedBug::kHeldBeforeStored,
};

std::vector<PlantedBug> bugs_of_a_host() {
  std::vector<PlantedBug> bugs;
  for (const PlantedBug bug : all_planted_bugs())
    if (std::ranges::find(kFoundElsewhere, bug) == kFoundElsewhere.end()) bugs.push_back(bug);
  return bugs;
}

struct Hunt {
  std::uint64_t seeds = 0;   // run, the one that found it included
  std::uint64_t checks = 0;  // of them ended by a CHECK
  std::string found;         // oracle and what it says; empty: nothing
};

bool is_oracle(Oracle oracle) {
  return oracle != Oracle::kCheck && oracle != Oracle::kCrash && oracle != Oracle::kHang;
}

// What an oracle had said before a CHECK ended the run in the same step (simulation.cpp).
std::string said_before(const std::string& narration) {
  constexpr std::string_view kWords = "an oracle had failed before: ";
  const std::size_t at = narration.find(kWords);
  if (at == std::string::npos) return {};
  const std::size_t from = at + kWords.size();
  return narration.substr(from, narration.find('\n', from) - from);
}

Hunt hunt(PlantedBug bug) {
  Hunt hunt;
  while (hunt.found.empty() && hunt.seeds < kMostSeeds) {
    const Finding finding = run_isolated(++hunt.seeds, bug);
    if (!finding.failed) continue;
    hunt.found = is_oracle(finding.oracle)
                     ? std::string(to_string(finding.oracle)) + ": " + finding.message
                     : said_before(finding.text);
    if (hunt.found.empty()) ++hunt.checks;
  }
  return hunt;
}

class PlantedBugs : public ::testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedBugs, Is_found) {
  const std::string name(to_string(GetParam()));
  const Hunt found = hunt(GetParam());
  ASSERT_FALSE(found.found.empty()) << name << " was not found in " << found.seeds << " seeds, "
                                    << found.checks << " of them ended by a CHECK";
  std::printf("%s: seed %llu (%llu ended by a CHECK): %s\n", name.c_str(),
              static_cast<unsigned long long>(found.seeds),
              static_cast<unsigned long long>(found.checks), found.found.c_str());
  RecordProperty("planted_bug", name);
  RecordProperty("tries", std::to_string(found.seeds));
  RecordProperty("checks", std::to_string(found.checks));
  RecordProperty("unit", "seeds");
  RecordProperty("oracle", found.found);
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedBugs, ::testing::ValuesIn(bugs_of_a_host()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace orlop::simulation
