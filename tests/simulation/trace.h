// SPDX-License-Identifier: Apache-2.0
// The last events of a run, for the report of a failure.
#pragma once

#include <deque>
#include <string>

#include "base/ids.h"

namespace orlop::simulation {

class Trace {
 public:
  static constexpr std::size_t kKept = 200;
  void add(MonoNs now, std::string text) {
    if (events_.size() == kKept) events_.pop_front();
    events_.push_back(std::to_string(now / kNsPerUs) + " us  " + std::move(text));
  }
  std::string text() const {
    std::string all;
    for (const std::string& event : events_) all += "  " + event + "\n";
    return all;
  }

 private:
  std::deque<std::string> events_;
};

}  // namespace orlop::simulation
