// SPDX-License-Identifier: Apache-2.0
// Whether the node drains, as far as its answers say it: what a put that was answered must have
// met. Any client may begin or end a drain, so the state is known only from the answer to a request
// that no other one overlapped, until the next is posted.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

namespace orlop::simulation {

class DrainOracle {
 public:
  // A request to begin or end it was posted. Returns its number, for one of the two below.
  std::uint64_t posted() {
    known_.reset();
    open_.insert(++clock_);
    return clock_;
  }
  void answered(std::uint64_t number, bool draining) {
    open_.erase(number);
    if (open_.empty() && last_over_ < number) {
      known_ = draining;
      known_since_ = ++clock_;
    }
    last_over_ = ++clock_;
  }
  // Nobody will serve it any more; somebody may have.
  void lost(std::uint64_t number) {
    if (open_.erase(number) > 0) last_over_ = ++clock_;
  }

  // Something else may have changed it.
  void forget() { known_.reset(); }

  std::uint64_t now() const { return clock_; }
  // What the node did all the time since then; nullopt: nobody knows.
  std::optional<bool> since(std::uint64_t then) const {
    return known_since_ <= then ? known_ : std::nullopt;
  }

 private:
  std::uint64_t clock_ = 0;
  std::set<std::uint64_t> open_;
  std::uint64_t last_over_ = 0;
  std::optional<bool> known_ = false;
  std::uint64_t known_since_ = 0;
};

}  // namespace orlop::simulation
