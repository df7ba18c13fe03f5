// SPDX-License-Identifier: Apache-2.0
// The life of servers under one keeper: start, death, backoff, hang, graceful stop, and the upgrade
// to another program with a way back. Pure; the driver (src/node/keeper.cpp) carries out effects in
// order and reports what came of them. The table is in docs/protocol/attach.md.
//
// Guarantees (server_life_sim_test holds them against random histories)
//   * Start comes only when no server lives: the end of the one before was reported.
//   * An upgrade that is refused leaves the server that runs alone.
//   * A new program that does not serve, or dies before `forget_after` of serving, is followed by
//     the program before it, at once, on the same memory. What it says about the memory
//     (kSegmentUnreadable) is not believed: only the good program may condemn a segment.
//   * A new program is adopted only after it answered a ping: saying "serving" and hanging is not
//     serving.
//   * Every wait has a limit: check, stop, start, trial, hang.
// Thread: none. Times: CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "orlop/error.h"
#include "protocol/attach/frames.h"

namespace orlop::protocol {

struct LifeLimits {
  MonoNs backoff_first = 100 * kNsPerMs;
  MonoNs backoff_most = 5 * kNsPerSecond;
  MonoNs forget_after = kNsPerSecond;       // a server that served so long was a good one
  MonoNs stop_grace = 5 * kNsPerSecond;     // from "stop" to SIGKILL
  MonoNs exit_grace = 2 * kNsPerSecond;     // from the end of its socket to SIGKILL
  MonoNs start_limit = 120 * kNsPerSecond;  // from Start to "serving"
  MonoNs check_limit = 10 * kNsPerSecond;   // of the preflight of a new program
  MonoNs ping_every = kNsPerSecond;
  MonoNs hang_limit = 30 * kNsPerSecond;  // from a ping to SIGKILL, if no answer comes; 0: never
};

// How a server ended, as far as it matters here.
enum class ServerEnd { kOther, kBadConfiguration, kSegmentUnreadable };
// kGood: the program that last served well. kCandidate: the one that was checked last.
enum class Program { kGood, kCandidate };

// What the preflight of a new program came to. Versions are texts for people.
struct CheckResult {
  bool passed = false;
  std::string version;
  std::string reason;  // if not passed
};

namespace life_effect {
// Start a server. Answer: start_failed() if it could not be; else serving() / ended() come.
struct Start {
  Program program = Program::kGood;
};
struct Stop {};  // kStop over the link: answer what waits, exit
struct Kill {    // SIGKILL; its death is an event
  std::string why;
};
struct Ping {};
struct Check {};      // open the program on disk and run its preflight. Answer: checked()
struct EndCheck {};   // kill the preflight; no answer is wanted any more
struct Adopt {};      // the candidate is the good program from now on
struct Discard {};    // let go of the candidate
struct NewMemory {};  // the segment is unreadable: another one, before the next Start
struct Report {       // the outcome of an upgrade, for log, status and service manager
  UpgradeFrame upgrade;
};
struct Over {  // no server lives, none will: the keeper ends
  std::optional<Error> error;
};
}  // namespace life_effect
using LifeEffect = std::variant<life_effect::Start, life_effect::Stop, life_effect::Kill,
                                life_effect::Ping, life_effect::Check, life_effect::EndCheck,
                                life_effect::Adopt, life_effect::Discard, life_effect::NewMemory,
                                life_effect::Report, life_effect::Over>;
using LifeEffects = std::vector<LifeEffect>;

class ServerLife {
 public:
  enum class State { kWaiting, kStarting, kServing, kReplacing, kStopping, kOver };

  // Of a keeper before this one, whose memory was taken over: servers that ended; served: there are
  // contents, so no server that cannot be started ends the keeper, and all of it with it.
  struct Before {
    std::uint32_t restarts = 0;
    bool served = false;
  };
  // version: of the program that is good from the start.
  ServerLife(LifeLimits limits, Before before, std::string version);

  LifeEffects begin(MonoNs now);  // once
  LifeEffects start_failed(Error error, MonoNs now);
  LifeEffects serving(MonoNs now);
  LifeEffects pong(MonoNs now);
  // Its socket ended (clean), or is broken. It cannot go on without its keeper.
  LifeEffects link_ended(bool clean, MonoNs now);
  LifeEffects ended(ServerEnd end, MonoNs now);
  LifeEffects stop_signal(MonoNs now);
  // SIGHUP. One that comes while an upgrade is under way is carried out after it.
  LifeEffects reload_signal(MonoNs now);
  LifeEffects checked(const CheckResult& result, MonoNs now);
  LifeEffects tick(MonoNs now);
  MonoNs next_deadline() const;  // kNever if none

  State state() const { return state_; }
  bool upgrading() const { return phase_ != Phase::kNone; }
  std::uint32_t restarts() const { return restarts_; }
  MonoNs restart_at() const { return restart_at_; }  // kWaiting
  const UpgradeFrame& last_upgrade() const { return upgrade_; }

 private:
  // Of an upgrade. kTrying: the candidate runs and has not proved itself.
  enum class Phase { kNone, kChecking, kReplacing, kTrying };

  bool alive() const {
    return state_ == State::kStarting || state_ == State::kServing || state_ == State::kReplacing ||
           state_ == State::kStopping;
  }
  void start(MonoNs now, LifeEffects& effects);
  void kill(std::string why, LifeEffects& effects);
  void refuse(std::string reason, MonoNs now, LifeEffects& effects);
  void roll_back(std::string reason, MonoNs now, LifeEffects& effects);
  void succeed(MonoNs now, LifeEffects& effects);
  void finish_upgrade(UpgradeOutcome outcome, std::string reason, MonoNs now, LifeEffects& effects);
  void wait_for_restart(MonoNs now);
  std::string why_killed() const;
  bool on_trial() const;
  MonoNs hang_limit() const;

  LifeLimits limits_;
  State state_ = State::kWaiting;
  Phase phase_ = Phase::kNone;
  bool ever_served_ = false;
  bool reload_again_ = false;
  bool answered_ = false;  // the server that serves, a ping
  std::uint32_t restarts_ = 0;
  std::string version_, candidate_version_;
  UpgradeFrame upgrade_;
  std::string killed_because_;
  MonoNs restart_at_ = 0, backoff_ = 0, served_since_ = 0;
  MonoNs kill_at_ = kNever, check_until_ = kNever;
  MonoNs ping_at_ = kNever, pinged_at_ = kNever;  // pinged: no answer yet
};

}  // namespace orlop::protocol
