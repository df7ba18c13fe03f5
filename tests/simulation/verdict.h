// SPDX-License-Identifier: Apache-2.0
// What the oracles found. A failure is a value: planted-bug tests assert that there is one.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace orlop::simulation {

class Verdict {
 public:
  // Keeps the first failure: later ones are its consequences.
  void broken(std::string what) {
    if (!failure_) failure_ = std::move(what);
  }
  void require(bool holds, const char* what) {
    if (!holds) broken(what);
  }
  bool failed() const { return failure_.has_value(); }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  std::optional<std::string> failure_;
};

}  // namespace orlop::simulation
