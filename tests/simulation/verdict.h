// SPDX-License-Identifier: Apache-2.0
// What the oracles found. A failure is a value: planted-bug tests assert that there is one.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "oracle.h"

namespace orlop::simulation {

struct Failure {
  Oracle oracle = Oracle::kCheck;
  std::string message;
};

class Verdict {
 public:
  // Keeps the first failure: later ones are its consequences.
  void broken(Oracle oracle, std::string message) {
    if (!failure_) failure_ = Failure{oracle, std::move(message)};
  }
  void require(Oracle oracle, bool holds, const char* message) {
    if (!holds) broken(oracle, message);
  }
  bool failed() const { return failure_.has_value(); }
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  std::optional<Failure> failure_;
};

}  // namespace orlop::simulation
