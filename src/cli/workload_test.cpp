// SPDX-License-Identifier: Apache-2.0
#include "cli/workload.h"

#include <gtest/gtest.h>

#include <list>
#include <set>
#include <unordered_map>

namespace orlop::cli {
namespace {

WorkloadOptions options(std::uint64_t seed, std::uint32_t users = 64) {
  return {.seed = seed, .workers = 2, .users = users, .system_prompts = 8};
}

TEST(Workload, Same_seed_gives_the_same_requests) {
  Workload a(options(5)), b(options(5)), other(options(6));
  bool differs = false;
  for (int i = 0; i < 200; ++i) {
    const Request x = a.next(), y = b.next(), z = other.next();
    EXPECT_EQ(x.keys, y.keys);
    EXPECT_EQ(x.worker, y.worker);
    EXPECT_EQ(x.prompt_pages, y.prompt_pages);
    differs |= x.keys != z.keys;
  }
  EXPECT_TRUE(differs);
}

TEST(Workload, Next_turn_of_a_user_extends_the_last_one) {
  Workload workload(options(1));
  std::unordered_map<std::uint32_t, Request> last;
  int extended = 0;
  for (int i = 0; i < 1000; ++i) {
    Request request = workload.next();
    const auto before = last.find(request.user);
    if (!request.new_conversation && before != last.end()) {
      const auto& old = before->second.keys;
      ASSERT_GT(request.prompt_pages, old.size());
      EXPECT_TRUE(std::equal(old.begin(), old.end(), request.keys.begin()));
      ++extended;
    }
    last[request.user] = std::move(request);
  }
  EXPECT_GT(extended, 500);
}

TEST(Workload, Requests_stay_within_their_limits) {
  Workload workload(options(2));
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Request request = workload.next();
    EXPECT_EQ(request.index, i);
    EXPECT_LT(request.user, 64u);
    EXPECT_LT(request.worker, 2u);
    EXPECT_LT(request.prompt_pages, request.keys.size());
    EXPECT_GE(request.prompt_pages, kMinSystemPages);
    EXPECT_LE(request.keys.size(), kMaxRequestPages);
    const std::set<PageKey> unique(request.keys.begin(), request.keys.end());
    EXPECT_EQ(unique.size(), request.keys.size());
  }
}

TEST(Workload, Users_share_system_prompts_and_move_between_workers) {
  Workload workload(options(3));
  std::set<PageKey> first_pages;
  std::unordered_map<std::uint32_t, std::set<std::uint32_t>> workers_of;
  for (int i = 0; i < 2000; ++i) {
    const Request request = workload.next();
    first_pages.insert(request.keys.front());
    workers_of[request.user].insert(request.worker);
  }
  EXPECT_EQ(first_pages.size(), 8u);
  std::size_t moved = 0;
  for (const auto& [user, workers] : workers_of) moved += workers.size() > 1 ? 1 : 0;
  EXPECT_GT(moved, workers_of.size() / 2);
}

// Least recently used pages leave, deepest first, as in the node.
class LruModel {
 public:
  explicit LruModel(std::size_t capacity) : capacity_(capacity) {}
  std::size_t serve(const Request& request) {
    std::size_t hits = 0;
    while (hits < request.prompt_pages && place_.contains(request.keys[hits])) ++hits;
    for (std::size_t i = request.keys.size(); i-- > 0;) touch(request.keys[i]);
    for (; place_.size() > capacity_; ++evicted) {
      place_.erase(order_.back());
      order_.pop_back();
    }
    return hits;
  }
  std::size_t evicted = 0;

 private:
  void touch(const PageKey& key) {
    if (const auto found = place_.find(key); found != place_.end()) order_.erase(found->second);
    order_.push_front(key);
    place_[key] = order_.begin();
  }
  std::size_t capacity_;
  std::list<PageKey> order_;
  std::unordered_map<PageKey, std::list<PageKey>::iterator> place_;
};

TEST(Workload, Users_for_a_capacity_give_a_good_hit_rate_and_evictions) {
  for (const std::size_t capacity : {std::size_t{1000}, std::size_t{4000}, std::size_t{16000}}) {
    Workload workload(options(4, users_for(capacity)));
    LruModel cache(capacity);
    double pages = 0, hits = 0;
    for (std::size_t i = 0; i < capacity; ++i) {
      const Request request = workload.next();
      pages += request.prompt_pages;
      hits += static_cast<double>(cache.serve(request));
    }
    RecordProperty("hit_rate_" + std::to_string(capacity), std::to_string(hits / pages));
    EXPECT_GT(hits / pages, 0.65) << capacity;
    EXPECT_LT(hits / pages, 0.93) << capacity;
    EXPECT_GT(cache.evicted, capacity / 2);
  }
}

}  // namespace
}  // namespace orlop::cli
