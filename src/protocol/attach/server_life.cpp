// SPDX-License-Identifier: Apache-2.0
#include "protocol/attach/server_life.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"

namespace orlop::protocol {

namespace fx = life_effect;

ServerLife::ServerLife(LifeLimits limits, Before before, std::string version)
    : limits_(limits),
      ever_served_(before.served),
      restarts_(before.restarts),
      version_(std::move(version)) {}

LifeEffects ServerLife::begin(MonoNs now) {
  CHECK(state_ == State::kWaiting && restart_at_ == 0, "begins once");
  LifeEffects effects;
  start(now, effects);
  return effects;
}

void ServerLife::start(MonoNs now, LifeEffects& effects) {
  const bool candidate = phase_ == Phase::kTrying;
  state_ = State::kStarting;
  kill_at_ = now + limits_.start_limit;
  ping_at_ = pinged_at_ = kNever;
  killed_because_.clear();
  answered_ = false;
  effects.emplace_back(fx::Start{candidate ? Program::kCandidate : Program::kGood});
}

void ServerLife::kill(std::string why, LifeEffects& effects) {
  killed_because_ = why;
  kill_at_ = ping_at_ = pinged_at_ = kNever;
  effects.emplace_back(fx::Kill{std::move(why)});
}

// For want of processes, descriptors or memory: what we hold is worth trying again.
LifeEffects ServerLife::start_failed(Error error, MonoNs now) {
  CHECK(state_ == State::kStarting);
  LifeEffects effects;
  kill_at_ = kNever;
  if (phase_ == Phase::kTrying) {
    roll_back("could not be started: " + error.message, now, effects);
  } else if (!ever_served_) {
    state_ = State::kOver;
    effects.emplace_back(fx::Over{std::move(error)});
  } else {
    state_ = State::kWaiting;
    restart_at_ = now + limits_.backoff_most;
  }
  return effects;
}

LifeEffects ServerLife::serving(MonoNs now) {
  ever_served_ = true;
  if (state_ != State::kStarting) return {};  // it is being stopped already
  state_ = State::kServing;
  served_since_ = now;
  kill_at_ = kNever;
  // Its word is not enough to be adopted, and nobody waits a second longer for that than he must.
  ping_at_ = phase_ == Phase::kTrying ? now : now + limits_.ping_every;
  return tick(now);
}

LifeEffects ServerLife::pong(MonoNs now) {
  if (state_ != State::kServing || pinged_at_ == kNever) return {};
  answered_ = true;
  pinged_at_ = kNever;
  ping_at_ = now + limits_.ping_every;
  return {};
}

LifeEffects ServerLife::link_ended(bool clean, MonoNs now) {
  if (!alive()) return {};
  // One that closed its end is about to exit, with a status that says why: it gets a moment.
  kill_at_ = std::min(kill_at_, now + (clean ? limits_.exit_grace : 0));
  ping_at_ = pinged_at_ = kNever;
  return tick(now);
}

LifeEffects ServerLife::ended(ServerEnd end, MonoNs now) {
  CHECK(alive(), "the end of a server that was never started");
  LifeEffects effects;
  const bool served_well = state_ == State::kServing && now - served_since_ >= limits_.forget_after;
  kill_at_ = ping_at_ = pinged_at_ = kNever;
  if (state_ == State::kStopping) {
    state_ = State::kOver;
    effects.emplace_back(fx::Over{});
    return effects;
  }
  ++restarts_;
  if (phase_ == Phase::kTrying) {
    roll_back(state_ == State::kServing ? "died while it was on trial" : "did not serve", now,
              effects);
    return effects;
  }
  if (end == ServerEnd::kBadConfiguration && !ever_served_) {
    state_ = State::kOver;
    effects.emplace_back(fx::Over{
        Error{ErrorCode::kInvalidArgument, "the server refused its configuration (see above)"}});
    return effects;
  }
  if (end == ServerEnd::kSegmentUnreadable) effects.emplace_back(fx::NewMemory{});
  if (state_ == State::kReplacing) {
    phase_ = Phase::kTrying;
    start(now, effects);
    return effects;
  }
  if (served_well) backoff_ = 0;
  wait_for_restart(now);
  return effects;
}

void ServerLife::wait_for_restart(MonoNs now) {
  state_ = State::kWaiting;
  restart_at_ = now + backoff_;
  backoff_ = backoff_ == 0 ? limits_.backoff_first : std::min(backoff_ * 2, limits_.backoff_most);
}

LifeEffects ServerLife::stop_signal(MonoNs now) {
  LifeEffects effects;
  if (phase_ == Phase::kChecking) effects.emplace_back(fx::EndCheck{});
  if (phase_ != Phase::kNone) effects.emplace_back(fx::Discard{});
  phase_ = Phase::kNone;
  reload_again_ = false;
  check_until_ = kNever;
  if (state_ == State::kWaiting) {
    state_ = State::kOver;
    effects.emplace_back(fx::Over{});
  } else if (state_ == State::kStopping) {
    kill("asked to stop a second time", effects);
  } else if (alive()) {
    // One that was stopped for an upgrade was told already, and keeps its deadline.
    if (state_ != State::kReplacing) {
      kill_at_ = std::min(kill_at_, now + limits_.stop_grace);
      effects.emplace_back(fx::Stop{});
    }
    state_ = State::kStopping;
    ping_at_ = pinged_at_ = kNever;
  }
  return effects;
}

// ---- upgrade ---------------------------------------------------------------------------------

LifeEffects ServerLife::reload_signal(MonoNs now) {
  if (state_ == State::kStopping || state_ == State::kOver) return {};
  if (phase_ != Phase::kNone) {
    reload_again_ = true;
    return {};
  }
  phase_ = Phase::kChecking;
  check_until_ = now + limits_.check_limit;
  return {fx::Check{}};
}

LifeEffects ServerLife::checked(const CheckResult& result, MonoNs now) {
  LifeEffects effects;
  if (phase_ != Phase::kChecking) return effects;  // stopped meanwhile
  check_until_ = kNever;
  candidate_version_ = result.version;
  if (!result.passed) {
    refuse(result.reason, now, effects);
    return effects;
  }
  if (state_ == State::kWaiting || PLANTED(kServerBesideOldOne)) {
    phase_ = Phase::kTrying;
    start(now, effects);
    return effects;
  }
  CHECK(state_ == State::kStarting || state_ == State::kServing);
  phase_ = Phase::kReplacing;
  state_ = State::kReplacing;
  kill_at_ = now + limits_.stop_grace;
  ping_at_ = pinged_at_ = kNever;
  effects.emplace_back(fx::Stop{});
  return effects;
}

void ServerLife::refuse(std::string reason, MonoNs now, LifeEffects& effects) {
  effects.emplace_back(fx::Discard{});
  finish_upgrade(UpgradeOutcome::kRefused, std::move(reason), now, effects);
}

// The candidate is dead. The program before it goes on with the same memory.
void ServerLife::roll_back(std::string reason, MonoNs now, LifeEffects& effects) {
  if (!killed_because_.empty()) reason += " (killed: " + killed_because_ + ")";
  phase_ = Phase::kNone;
  start(now, effects);
  effects.emplace_back(fx::Discard{});
  finish_upgrade(UpgradeOutcome::kRolledBack, std::move(reason), now, effects);
}

void ServerLife::succeed(MonoNs now, LifeEffects& effects) {
  effects.emplace_back(fx::Adopt{});
  backoff_ = 0;
  finish_upgrade(UpgradeOutcome::kSucceeded, {}, now, effects);
}

void ServerLife::finish_upgrade(UpgradeOutcome outcome, std::string reason, MonoNs now,
                                LifeEffects& effects) {
  phase_ = Phase::kNone;
  upgrade_.outcome = outcome;
  upgrade_.from = version_;
  upgrade_.to = candidate_version_;
  upgrade_.reason = std::move(reason);
  upgrade_.refused += outcome == UpgradeOutcome::kRefused;
  upgrade_.succeeded += outcome == UpgradeOutcome::kSucceeded;
  upgrade_.rolled_back += outcome == UpgradeOutcome::kRolledBack;
  if (outcome == UpgradeOutcome::kSucceeded) version_ = candidate_version_;
  // Before the next one begins, which may have its own outcome at once.
  effects.emplace_back(fx::Report{upgrade_});
  if (std::exchange(reload_again_, false)) {
    for (LifeEffect& effect : reload_signal(now)) effects.push_back(std::move(effect));
  }
}

// ---- time ------------------------------------------------------------------------------------

LifeEffects ServerLife::tick(MonoNs now) {
  LifeEffects effects;
  if (now >= check_until_) {
    check_until_ = kNever;
    effects.emplace_back(fx::EndCheck{});
    refuse("its preflight did not answer in time", now, effects);
  }
  if (state_ == State::kWaiting && now >= restart_at_) start(now, effects);
  if (alive() && now >= kill_at_) kill(why_killed(), effects);
  if (state_ != State::kServing) return effects;
  if (on_trial() && answered_ && now >= served_since_ + limits_.forget_after) {
    succeed(now, effects);
  }
  if (pinged_at_ != kNever && hang_limit() != kNever && now >= pinged_at_ + hang_limit()) {
    kill("hung: it did not answer a ping", effects);
  }
  if (now >= ping_at_) {
    ping_at_ = kNever;
    pinged_at_ = now;
    effects.emplace_back(fx::Ping{});
  }
  return effects;
}

std::string ServerLife::why_killed() const {
  switch (state_) {
    case State::kStarting:
      return "did not serve in time";
    case State::kServing:
      return "its socket ended and it did not";
    default:
      return "did not stop in time";
  }
}

MonoNs ServerLife::next_deadline() const {
  MonoNs next = std::min(kill_at_, check_until_);
  if (state_ == State::kWaiting) next = std::min(next, restart_at_);
  if (state_ != State::kServing) return next;
  if (on_trial() && answered_) next = std::min(next, served_since_ + limits_.forget_after);
  if (pinged_at_ != kNever && hang_limit() != kNever) {
    next = std::min(next, pinged_at_ + hang_limit());
  }
  return std::min(next, ping_at_);
}

// A server in a debugger may take for ever, a candidate may not: its upgrade would never end.
MonoNs ServerLife::hang_limit() const {
  if (limits_.hang_limit != 0) return limits_.hang_limit;
  return on_trial() ? limits_.start_limit : kNever;
}

// The candidate serves, and nothing speaks against it so far.
bool ServerLife::on_trial() const {
  return phase_ == Phase::kTrying && state_ == State::kServing && kill_at_ == kNever &&
         killed_because_.empty();
}

}  // namespace orlop::protocol
