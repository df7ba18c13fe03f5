// SPDX-License-Identifier: Apache-2.0
#include "base/sometimes.h"

#include "base/check.h"

#ifdef ORLOP_SIMULATION

namespace orlop {
namespace {

std::map<std::string, std::uint64_t, std::less<>>& counts() {
  static std::map<std::string, std::uint64_t, std::less<>> by_name;
  return by_name;
}

}  // namespace

void sometimes_reached(const char* name) {
  const std::string_view key(name);
  const auto it = counts().find(key);
  if (it != counts().end()) {
    ++it->second;
  } else {
    counts().emplace(key, 1);
  }
}

const std::map<std::string, std::uint64_t, std::less<>>& sometimes_counts() {
  return counts();
}

std::uint64_t sometimes_count(std::string_view name) {
  const auto it = counts().find(name);
  return it == counts().end() ? 0 : it->second;
}

void sometimes_reset() {
  counts().clear();
}

}  // namespace orlop

#endif  // ORLOP_SIMULATION
