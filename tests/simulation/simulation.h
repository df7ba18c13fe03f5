// SPDX-License-Identifier: Apache-2.0
// One run: a safety phase full of faults, then a quiet phase in which everything must come to its
// end. docs/protocol/simulation.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verdict.h"

namespace orlop::simulation {

struct Report {
  std::uint64_t seed = 0;
  std::optional<Failure> failure;  // the first oracle that did not hold
  std::string text;                // options and last events; only of a failure
  // Of every event and every store of a slot word: equal for equal runs.
  std::uint64_t trace_hash = 0;
};

// Failures of an oracle are values. A CHECK inside a machine aborts the process; what is printed
// then names the seed (see print_run_on_abort()).
Report run_simulation(std::uint64_t seed);

// Installs a SIGABRT handler that prints options and last events of the run that is under way.
void print_run_on_abort();

}  // namespace orlop::simulation
