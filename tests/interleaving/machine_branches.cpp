// SPDX-License-Identifier: Apache-2.0
// Where a run may go on differently, and how.
#include "base/check.h"
#include "machine.h"

namespace orlop::interleaving {

// ---- branches ----

// Before an access of the running fiber.
void Machine::branch() {
  for (;;) {
    if (chooser_->budget_left() == 0) return;
    options_.clear();
    add(Action::Kind::kContinue, current_, 0, 0);
    add_switches(1, true);
    add_drains();
    if (program_.may_be_abandoned(current_)) add_abandons();
    const Action action = ask();
    if (action.kind == Action::Kind::kContinue) return;
    carry_out(action);
    if (action.kind != Action::Kind::kDrain) return;
  }
}

// Before a store that only recovery will see.
void Machine::abandon_branch() {
  if (chooser_->budget_left() == 0) return;
  options_.clear();
  add(Action::Kind::kContinue, current_, 0, 0);
  add_abandons();
  const Action action = ask();
  if (action.kind != Action::Kind::kContinue) carry_out(action);
}

// Before a fence, or a read-modify-write that only recovery will see: the last moment at which
// stores can be late.
void Machine::branch_before_drain() {
  const StoreBuffer& buffer = self().buffer;
  if (everywhere_ || (buffer.size() > 0 && keeping_shows(buffer.size()))) {
    branch();
  } else if (program_.may_be_abandoned(current_)) {
    abandon_branch();
  }
}

const Action& Machine::ask() {
  if (options_.size() == 1) return options_[0];
  ++branches_;
  const Action& chosen = options_[chooser_->choose(options_)];
  if (&chosen != &options_[0]) {
    taken_.push_back(chosen);
    if (trace_ != nullptr) note(chosen);
  }
  return chosen;
}

void Machine::carry_out(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kContinue:
      return;
    case Action::Kind::kSwitch:
      if (current_ != kNobody) drain(current_, action.count);
      return enter(action.fiber);
    case Action::Kind::kDrain:
      return drain(action.fiber, runners_[action.fiber]->buffer.size() - action.count);
    case Action::Kind::kAbandonLost:
      self().buffer.clear();
      break;
    case Action::Kind::kAbandon:
      drain(current_, 0);
      break;
  }
  self().life = Life::kAbandoned;
  ++abandoned_;
  next_after_end(false);
}

// The running fiber ended, sleeps or was abandoned (or none ran yet): who is next costs nothing.
// Comes back only for a fiber that wakes up, and in the main context.
void Machine::next_after_end(bool may_keep) {
  for (;;) {
    options_.clear();
    add_switches(0, may_keep);
    if (options_.empty()) {
      // Buffers drain by themselves, in the end; that may wake a sleeper.
      drain_everybody();
      add_switches(0, false);
    }
    if (options_.empty()) break;
    add_drains();
    const Action action = ask();
    carry_out(action);
    if (action.kind == Action::Kind::kSwitch) return;
  }
  for (const auto& runner : runners_) {
    if (runner->life == Life::kSleeping && abandoned_ == 0) finish("lost wake-up: all sleep");
  }
  finish(std::nullopt);
}

// ---- options ----

void Machine::add(Action::Kind kind, unsigned fiber, std::size_t count, unsigned cost) {
  options_.push_back({kind, static_cast<std::uint8_t>(fiber), static_cast<std::uint8_t>(count),
                      static_cast<std::uint8_t>(cost), step_});
}

// Keeping the youngest `kept` stores back differs from not having executed them only if a load that
// depends on others came after the oldest of them, and if others look there at all.
bool Machine::keeping_shows(std::size_t kept) {
  if (everywhere_) return true;
  const StoreBuffer& buffer = self().buffer;
  const BufferedStore& oldest = buffer.at(buffer.size() - kept);
  return oldest.step < self().last_foreign_load &&
         SharedAddresses::used_by_others(addresses_.look(oldest.address), bit());
}

void Machine::add_switches(unsigned cost, bool may_keep) {
  const unsigned budget = chooser_->budget_left();
  const std::size_t buffered = current_ == kNobody || !may_keep ? 0 : self().buffer.size();
  for (unsigned i = 0; i < runners_.size(); ++i) {
    if (i == current_ && runners_[i]->life == Life::kReady) continue;
    if (!runnable(i)) continue;
    if (cost <= budget) add(Action::Kind::kSwitch, i, 0, cost);
    if (cost + 1 > budget) continue;
    for (std::size_t kept = 1; kept <= buffered; ++kept) {
      if (keeping_shows(kept)) add(Action::Kind::kSwitch, i, kept, cost + 1);
    }
  }
}

// Of the buffers of fibers that do not run.
void Machine::add_drains() {
  if (chooser_->budget_left() < 1) return;
  for (unsigned i = 0; i < runners_.size(); ++i) {
    if (i == current_) continue;
    const StoreBuffer& buffer = runners_[i]->buffer;
    const std::uint8_t mask = bit_of(i);
    for (std::size_t n = 1; n <= buffer.size(); ++n) {
      if (everywhere_ ||
          SharedAddresses::used_by_others(addresses_.look(buffer.at(n - 1).address), mask))
        add(Action::Kind::kDrain, i, n, 1);
    }
  }
}

void Machine::add_abandons() {
  if (chooser_->budget_left() < 1 || abandoned_ > 0) return;
  add(Action::Kind::kAbandon, 0, 0, 1);
  const std::size_t buffered = self().buffer.size();
  if (buffered > 0 && keeping_shows(buffered)) add(Action::Kind::kAbandonLost, 0, 0, 1);
}

}  // namespace orlop::interleaving
