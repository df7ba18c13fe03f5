// SPDX-License-Identifier: Apache-2.0
// The last events of a run, for the report of a failure, and a hash of all of them, which says
// whether two runs were the same.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/ids.h"
#include "base/rng.h"

namespace orlop::simulation {

class Trace {
 public:
  static constexpr std::size_t kKept = 200;
  void add(MonoNs now, std::string text) {
    mix(now);
    mix(std::hash<std::string>{}(text));
    if (events_.size() == kKept) events_.pop_front();
    events_.push_back(std::to_string(now / kNsPerUs) + " us  " + std::move(text));
  }
  void mix(std::uint64_t word) {
    std::uint64_t state = hash_ ^ word;
    hash_ = splitmix64(state);
  }
  std::uint64_t hash() const { return hash_; }
  std::string text() const {
    std::string all;
    for (const std::string& event : events_) all += "  " + event + "\n";
    return all;
  }

 private:
  std::deque<std::string> events_;
  std::uint64_t hash_ = 0;
};

}  // namespace orlop::simulation
