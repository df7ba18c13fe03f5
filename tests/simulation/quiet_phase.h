// SPDX-License-Identifier: Apache-2.0
// The end of a run: no more faults, no new work. Everything comes to its end, every counter to
// zero, and the node can store anything again.
#pragma once

#include <functional>

#include "world.h"

namespace orlop::simulation {

class QuietPhase {
 public:
  explicit QuietPhase(World& world) : world_(world) {}
  void run();

 private:
  // Steps until `done`; else the run is broken: what waits will wait for ever.
  bool until(const char* what, const std::function<bool()>& done);
  bool all_idle() const;
  bool counters_are_zero();
  void put_into_every_namespace();
  void misses_have_causes();
  void pins_are_capped(std::uint32_t puts_before);  // quiet_phase_pins.cpp
  void cap_is_right();
  void everybody_leaves();
  void books_balance(std::size_t clients);

  World& world_;
};

}  // namespace orlop::simulation
