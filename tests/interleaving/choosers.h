// SPDX-License-Identifier: Apache-2.0
// The three ways to go through schedules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "machine.h"

namespace orlop::interleaving {

inline constexpr unsigned kNoBudget = 1'000;  // more deviations than any schedule has

// All schedules within a budget, each once. One run per call of next().
class DepthFirst final : public Chooser {
 public:
  explicit DepthFirst(unsigned budget) : budget_(budget) {}

  std::size_t choose(std::span<const Action> options) override {
    if (depth_ == frames_.size()) frames_.push_back({0, options.size()});
    const Frame& frame = frames_[depth_++];
    // The same choices lead to the same place, or the program is not deterministic.
    CHECK(frame.count == options.size(), "a program must depend on nothing but its schedule");
    spent_ += options[frame.chosen].cost;
    return frame.chosen;
  }
  unsigned budget_left() const override { return budget_ - spent_; }

  // Prepares the next schedule; false: there is none.
  bool next() {
    rewind();
    while (!frames_.empty() && frames_.back().chosen + 1 == frames_.back().count)
      frames_.pop_back();
    if (frames_.empty()) return false;
    ++frames_.back().chosen;
    return true;
  }
  void restart() {
    frames_.clear();
    rewind();
  }

 private:
  struct Frame {
    std::size_t chosen;
    std::size_t count;
  };
  void rewind() {
    depth_ = 0;
    spent_ = 0;
  }

  unsigned budget_;
  unsigned spent_ = 0;
  std::size_t depth_ = 0;
  std::vector<Frame> frames_;
};

// Deviates at a few places, chosen beforehand among the expected number of branches (after
// "probabilistic concurrency testing", Burckhardt et al. 2010); free choices are random.
class RandomWalk final : public Chooser {
 public:
  RandomWalk(std::uint64_t seed, std::uint64_t expected_branches) : rng_(seed) {
    const std::uint64_t deviations = 1 + rng_.uniform(kMaxDeviations);
    for (std::uint64_t i = 0; i < deviations; ++i)
      places_.push_back(rng_.uniform(std::max<std::uint64_t>(expected_branches, 1)));
    std::sort(places_.begin(), places_.end());
  }

  std::size_t choose(std::span<const Action> options) override {
    const bool deviate = std::binary_search(places_.begin(), places_.end(), branch_++);
    if (options[0].kind != Action::Kind::kContinue) return pick(options, 0);
    return deviate ? pick(options, 1) : 0;
  }
  unsigned budget_left() const override { return kNoBudget; }

 private:
  static constexpr std::uint64_t kMaxDeviations = 8;

  // First the kind, then which: else a full store buffer would outweigh everything.
  std::size_t pick(std::span<const Action> options, std::size_t from) {
    const Action& drawn = options[from + rng_.uniform(options.size() - from)];
    const bool plain = drawn.kind == Action::Kind::kSwitch && rng_.chance(0.5);
    for (std::size_t i = from; plain && i < options.size(); ++i) {
      if (options[i].kind == drawn.kind && options[i].fiber == drawn.fiber) return i;
    }
    return static_cast<std::size_t>(&drawn - options.data());
  }

  Rng rng_;
  std::vector<std::uint64_t> places_;
  std::uint64_t branch_ = 0;
};

// One given schedule.
class Replay final : public Chooser {
 public:
  explicit Replay(Schedule schedule) : schedule_(std::move(schedule)) {}

  std::size_t choose(std::span<const Action> options) override {
    if (at_ == schedule_.size()) return 0;
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (!options[i].same_act(schedule_[at_])) continue;
      ++at_;
      return i;
    }
    return 0;
  }
  unsigned budget_left() const override { return kNoBudget; }
  bool followed() const { return at_ == schedule_.size(); }

 private:
  Schedule schedule_;
  std::size_t at_ = 0;
};

}  // namespace orlop::interleaving
