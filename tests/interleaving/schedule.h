// SPDX-License-Identifier: Apache-2.0
// What a schedule is made of: the actions that differ from "the running fiber goes on", each at the
// number of the access (step) before which it happens. A schedule names no addresses and no
// budgets, so its text replays as long as program and code are the same.
//
//   12s1      before access 12: all buffered stores become visible, fiber 1 runs
//   12s1k2    the same, but the youngest 2 stores stay in the buffer
//   30d0n1    the oldest store in the buffer of fiber 0 becomes visible
//   41x 41y   the running fiber stops for ever; its buffered stores become visible (x) or are lost
//   (y)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orlop::interleaving {

struct Action {
  enum class Kind : std::uint8_t { kContinue, kSwitch, kDrain, kAbandon, kAbandonLost };
  Kind kind = Kind::kContinue;
  std::uint8_t fiber = 0;  // switch: to whom; drain: whose buffer
  std::uint8_t count = 0;  // switch: stores kept; drain: stores drained
  std::uint8_t cost = 0;   // of the preemption budget
  std::uint64_t step = 0;

  bool same_act(const Action& o) const {
    return kind == o.kind && fiber == o.fiber && count == o.count && step == o.step;
  }
};

using Schedule = std::vector<Action>;

std::string to_string(const Schedule& schedule);
std::optional<Schedule> parse_schedule(std::string_view text);  // nullopt: not a schedule

}  // namespace orlop::interleaving
