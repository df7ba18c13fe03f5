// SPDX-License-Identifier: Apache-2.0
// Hit rates on the two public Mooncake traces, replayed as the daemon does it, one page a group.
// Goldens: `LRU, tail touched first` in shared/sources/policy.md section 2, capacity 10000.
//
// The traces are not part of the repository: ORLOP_TRACES names their folder, else ../shared/traces
// beside the checkout is tried. The tests skip when they are absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "eviction/policy.h"

namespace orlop {
namespace {

constexpr std::uint32_t kCapacityPages = 10'000;
constexpr double kTolerance = 0.003;

std::filesystem::path trace_folder() {
  if (const char* folder = std::getenv("ORLOP_TRACES")) return folder;
  return std::filesystem::path(ORLOP_SOURCE_DIR) / ".." / "shared" / "traces";
}

// A prefix cache of kCapacityPages pages under one policy.
class Cache {
 public:
  explicit Cache(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {
    for (std::uint32_t slot = kCapacityPages; slot >= 1; --slot) free_slots_.push_back(slot);
    page_of_slot_.resize(kCapacityPages + 1);
  }

  void request(std::span<const std::uint64_t> pages) {
    std::size_t hits = 0;
    while (hits < pages.size() && slot_of_page_.contains(pages[hits])) ++hits;
    for (std::size_t i = hits; i-- > 0;) policy_->accessed(GroupRef{slot_of_page_.at(pages[i])});
    pages_ += pages.size();
    hit_pages_ += hits;
    put(pages, hits);
  }

  double hit_rate() const { return static_cast<double>(hit_pages_) / static_cast<double>(pages_); }
  std::uint64_t pages() const { return pages_; }
  const Policy& policy() const { return *policy_; }

 private:
  void put(std::span<const std::uint64_t> pages, std::size_t first) {
    const std::size_t missing = pages.size() - first;
    if (missing > free_slots_.size()) make_room(missing - free_slots_.size());
    ASSERT_GE(free_slots_.size(), missing) << "a request larger than the cache";
    for (std::size_t i = first; i < pages.size(); ++i) {
      ASSERT_FALSE(slot_of_page_.contains(pages[i])) << "resident without its parent";
      const std::uint32_t slot = free_slots_.back();
      free_slots_.pop_back();
      slot_of_page_[pages[i]] = slot;
      page_of_slot_[slot] = pages[i];
    }
    for (std::size_t i = pages.size(); i-- > first;) {
      const GroupRef parent = i == 0 ? GroupRef{} : GroupRef{slot_of_page_.at(pages[i - 1])};
      policy_->inserted({GroupRef{slot_of_page_.at(pages[i])}, parent, 1, 1, 0});
    }
  }

  void make_room(std::size_t pages) {
    std::vector<Victim> victims;
    policy_->evict_some(0, pages * kPageBytes, static_cast<std::uint32_t>(pages), victims);
    for (Victim& victim : victims) {
      const std::uint32_t slot = victim.group().value;
      slot_of_page_.erase(page_of_slot_[slot]);
      free_slots_.push_back(slot);
      policy_->freed(std::move(victim));
    }
  }

  std::unique_ptr<Policy> policy_;
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<std::uint64_t, std::uint32_t> slot_of_page_;
  std::vector<std::uint64_t> page_of_slot_;
  std::uint64_t pages_ = 0;
  std::uint64_t hit_pages_ = 0;
};

struct Golden {
  const char* label;
  const char* policy;
  const char* trace;
  std::uint64_t pages;
  double hit_rate;
};

class PolicyReplay : public testing::TestWithParam<Golden> {};

TEST_P(PolicyReplay, Hit_rate_on_public_trace_is_the_golden_one) {
  const Golden& golden = GetParam();
  const std::filesystem::path path = trace_folder() / golden.trace;
  std::ifstream file(path);
  if (!file) {
    GTEST_SKIP() << "HIT RATE NOT CHECKED: no trace at " << path
                 << "; set ORLOP_TRACES to the folder that holds it";
  }
  auto policy = make_policy(golden.policy, kCapacityPages);
  ASSERT_TRUE(policy.has_value());
  Cache cache(std::move(*policy));
  std::string line;
  while (std::getline(file, line) && !HasFatalFailure()) {
    const auto pages = nlohmann::json::parse(line).at("hash_ids").get<std::vector<std::uint64_t>>();
    cache.request(pages);
  }
  EXPECT_EQ(cache.pages(), golden.pages);
  EXPECT_NEAR(cache.hit_rate(), golden.hit_rate, kTolerance);
  RecordProperty("hit_rate", std::to_string(cache.hit_rate()));
  cache.policy().validate();
  EXPECT_EQ(cache.policy().counters().pending, 0u);
}

std::string golden_label(const testing::TestParamInfo<Golden>& info) {
  return info.param.label;
}

INSTANTIATE_TEST_SUITE_P(
    All, PolicyReplay,
    testing::Values(Golden{"lru_conversation", "lru", "conversation_trace.jsonl", 288'500, 0.2116},
                    Golden{"lru_synthetic", "lru", "synthetic_trace.jsonl", 121'877, 0.4239}),
    golden_label);

}  // namespace
}  // namespace orlop
