// SPDX-License-Identifier: Apache-2.0
// A host at work for a long time, with faults of the crash matrix at random: ./dev soak.
//
// What must hold: nobody reads a wrong byte; every call ends; hits go on while faults last; after
// each fault all make progress; at the end everything that the witness stored is there, and when
// all have left, no gauge of the node is above 0, keeper and server have as many descriptors as
// before the first client, and no process has grown beyond kGrowthLimitKib.
// Thread: one, with its own processes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fault.h"
#include "host.h"
#include "resources.h"

namespace orlop::soak {

// A line through the private memory of a process, from a quarter of the run on, may rise by so much
// until its end. An allocator's arenas move by less; a leak of 100 bytes a put is above it after a
// minute.
inline constexpr double kGrowthLimitKib = 4'096;

// Once a second. Of the node only while it answers.
struct Sample {
  double seconds = 0;
  std::string event;  // what began in this second
  limits_test::Footprint keeper, server, witness;
  bool answered = false;
  double pinned_groups = 0, free_slots = 0, committed_slots = 0, clients = 0, restarts = 0;
  double hits_a_second = 0;  // of the witness
  std::uint64_t wrong = 0;
};

struct SoakResult {
  std::vector<std::string> complaints;  // empty: everything held
  std::vector<Sample> samples;
  std::uint64_t seed = 0, faults = 0, hits = 0, wrong = 0;
  double minutes = 0, longest_call_ms = 0;
  double keeper_growth_kib = 0, server_growth_kib = 0, witness_growth_kib = 0;
  std::string log;  // of the node; only with complaints
};

class Soak {
 public:
  Soak(std::uint64_t seed, MonoNs length);
  SoakResult run();

 private:
  bool begin();
  void fault();
  // The thread that stands at the point; none: nobody came by.
  std::optional<pid_t> stand_at(PausePoint point);
  void recover(matrix::Fault fault);
  void come_and_go();
  void end();
  void pass(MonoNs time);
  // Polls and samples; a complaint "not in time: WHAT".
  bool wait(const std::string& what, const std::function<bool()>& holds);
  void sample_if_due();
  void judge_growth();
  pid_t server_pid() const;
  bool sound() const { return result_.complaints.empty(); }

  SoakResult result_;
  matrix::Host host_;
  Rng rng_;
  const MonoNs length_;
  MonoNs begun_ = 0, next_sample_ = 0;
  std::uint64_t hits_before_ = 0;
  std::string event_;
  bool node_answers_ = false;                                    // no fault is under way
  std::size_t keeper_descriptors_ = 0, server_descriptors_ = 0;  // without any client
};

}  // namespace orlop::soak
