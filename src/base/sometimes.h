// SPDX-License-Identifier: Apache-2.0
// Which rare states a run has reached: the counts behind SOMETIMES (check.h).
//
// A batch of simulations asserts that every name it expects was reached at least once, so a state
// that no seed visits is noticed. Exists only in simulation builds (orlop_base_sim).
// Thread: one; simulator and interleaving explorer are single-threaded.
#pragma once

#ifdef ORLOP_SIMULATION

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace orlop {

// Counts by name since the start of the process or the last reset.
const std::map<std::string, std::uint64_t, std::less<>>& sometimes_counts();
// 0 for a name that was never reached.
std::uint64_t sometimes_count(std::string_view name);
void sometimes_reset();

}  // namespace orlop

#endif  // ORLOP_SIMULATION
