// SPDX-License-Identifier: Apache-2.0
// A snapshot as one JSON object: what `orlop status` shows. Numbers of 64 bits that are identities
// (segment_id, incarnation) are texts. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "node/process_memory.h"
#include "runtime/snapshot.h"

namespace orlop::node {

std::string status_json(const runtime::NodeSnapshot& snapshot, const ProcessMemory& memory,
                        const std::vector<std::pair<std::string, std::string>>& configuration);

// Lower-case name of a slot state, for metrics and status.
const char* slot_state_name(int state);

}  // namespace orlop::node
