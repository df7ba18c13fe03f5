// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/plan_life.h"

#include "base/check.h"
#include "base/planted.h"

namespace orlop::protocol {

bool PlanLife::register_copy() {
  if (state_ != State::kOpen) return false;
  ++copies_;
  CHECK(copies_ != 0, "copies of one plan fit into 32 bits");
  return true;
}

PlanLife::Done PlanLife::copy_done(bool success) {
  if (copies_ == 0 || state_ == State::kEnded) return {};
  --copies_;
  if (!success) stuck_ = true;
  if (state_ == State::kEnding && copies_ == 0 && !stuck_) {
    SOMETIMES(true, "plan_ended_by_its_last_copy");
    state_ = State::kEnded;
    return {.accepted = true, .ended = true};
  }
  return {.accepted = true, .ended = false};
}

bool PlanLife::end() {
  if (state_ != State::kOpen) return false;
  if ((copies_ == 0 && !stuck_) || PLANTED(kPlanEndedBeforeCopies)) {
    state_ = State::kEnded;
    return true;
  }
  SOMETIMES(true, "plan_waits_for_its_copies");
  state_ = State::kEnding;
  return false;
}

}  // namespace orlop::protocol
