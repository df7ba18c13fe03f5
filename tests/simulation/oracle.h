// SPDX-License-Identifier: Apache-2.0
// What a run is held against, by name. Names of rules are those of the design (fluxon rule table);
// what each says on one host: docs/protocol/simulation.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orlop::simulation {

enum class Oracle : std::uint8_t {
  kBytes,     // a readable value has exactly the bytes of its key and namespace
  kV1,        // a stored answer means readable at once
  kV2,        // nothing is visible whose commit its writer has not posted
  kV3,        // what is readable is Committed after the step, and once
  kG5,        // what a read does not return is not pinned
  kS2,        // a slot is reused only when no pin, writer or copy of its generation exists
  kS4,        // what was chosen as victim ends freed or restored
  kA1,        // a group is visible whole or not at all
  kA2,        // a put rolls forward as a whole with one identity, whatever answer is lost
  kCap,       // slot sizes, capacity and caps
  kWord,      // state words change as slot_word.h allows
  kReason,    // a group is doomed only for a reason
  kRemoved,   // what was removed or flushed is not seen again
  kRestart,   // contents survive a restart
  kAnswers,   // each request is answered once, in order, with what was asked
  kDeadline,  // ... and in time
  kDrain,     // a draining node takes no puts, another one does
  kAttach,    // who is attached is held by the keeper, and nobody else
  kCauses,    // misses get the right cause
  kGauges,    // books balance and return to zero
  kLiveness,  // after the faults everything comes to its end
  kCheck,     // an assertion of the product
  kHang,      // a step that does not return
  kCrash,     // anything else that ends the process (a sanitizer)
};

inline constexpr std::array<std::string_view, 24> kOracleNames = {
    "BYTES", "V1",     "V2",     "V3",     "G5",       "S2",      "S4",      "A1",
    "A2",    "CAP",    "WORD",   "REASON", "REMOVED",  "RESTART", "ANSWERS", "DEADLINE",
    "DRAIN", "ATTACH", "CAUSES", "GAUGES", "LIVENESS", "CHECK",   "HANG",    "CRASH"};

constexpr std::string_view to_string(Oracle oracle) {
  return kOracleNames[static_cast<std::size_t>(oracle)];
}
constexpr std::optional<Oracle> oracle_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kOracleNames.size(); ++i)
    if (kOracleNames[i] == name) return static_cast<Oracle>(i);
  return std::nullopt;
}

}  // namespace orlop::simulation
