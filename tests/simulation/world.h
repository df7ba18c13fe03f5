// SPDX-License-Identifier: Apache-2.0
// One host in one thread: keeper, server, clients, their devices, the sockets between them, and
// virtual time. Everything that happens is chosen by one generator, so a seed replays exactly.
//
// An actor's step may be interrupted between two accesses to shared memory: then other actors take
// whole steps inside it (nested on the stack, a few levels deep), or it is killed there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "device.h"
#include "options.h"
#include "process.h"
#include "sim_segment.h"
#include "trace.h"
#include "verdict.h"
#include "wire.h"

namespace orlop::simulation {

class SimKeeper;
class SimClient;

class World : public AccessObserver {
 public:
  explicit World(const Options& options);
  ~World() override;

  void step();
  // No more faults, no new work; what is under way comes to its end.
  void calm_down() { calm_ = true; }
  bool calm() const { return calm_; }

  // ---- chance
  bool roll(std::uint32_t per_mille) { return rng.uniform(1000) < per_mille; }
  bool fault(std::uint32_t per_mille) { return !calm_ && roll(per_mille); }
  MonoNs frame_arrives() { return now + rng.uniform(200 * kNsPerUs); }
  // ---- doorbells
  void ring(Doorbell& bell) {
    bell.arrives.push_back(now + rng.uniform(options.doorbell_delay + 1));
  }
  bool take_rings(Doorbell& bell) const {
    return std::erase_if(bell.arrives, [this](MonoNs at) { return at <= now; }) > 0;
  }
  Doorbell node_doorbell;  // of all clients: who rings does not matter, all rings are looked at

  // Before a step of the process: it may be stopped, die in it, or be interrupted in it. False: it
  // does not run now.
  bool may_run(Process& process, std::uint32_t killed, std::uint32_t paused);
  // The process comes to a place where an interruption shows most: sometimes one comes soon.
  void interrupt_soon(Process& process);

  // ---- memory
  SimSegment& segment() const { return *segments_.back(); }
  // Cold: the one of now is left to those who have it mapped.
  void begin_segment();

  // ---- names
  KeyId key(std::uint32_t ns, std::uint32_t number) const;
  const std::string& namespace_text(std::uint32_t ns) const { return namespaces_[ns].text; }
  // Number of the namespace with this digest, as the node names it.
  std::uint32_t namespace_of(std::uint64_t digest) const;

  void note(std::string text) { trace.add(now, std::move(text)); }
  std::uint32_t new_pid() { return next_pid_++; }
  std::uint64_t new_nonce() { return next_nonce_++; }

  // ---- AccessObserver
  void stored(const void* address, std::uint64_t before, std::uint64_t after) override;
  void others_run_inside(Process& process) override;

  const Options options;
  Rng rng;
  MonoNs now = kNsPerSecond;
  Trace trace;
  Verdict verdict;
  Listener listener;
  std::unique_ptr<SimKeeper> keeper;
  std::vector<std::unique_ptr<SimClient>> clients;

 private:
  struct Namespace {
    std::string text;
    std::uint64_t digest = 0;
  };
  void step_somebody();
  void move_clock();
  void describe_namespaces();

  std::vector<std::unique_ptr<SimSegment>> segments_;
  std::vector<Namespace> namespaces_;
  bool calm_ = false;
  std::uint64_t stalled_steps_ = 0;  // for which the clock still stands
  unsigned depth_ = 0;               // steps on the stack
  std::uint32_t next_pid_ = 100;
  std::uint64_t next_nonce_ = 1;
};

}  // namespace orlop::simulation
