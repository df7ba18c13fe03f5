// SPDX-License-Identifier: Apache-2.0
// A snapshot in the Prometheus text format. Every name, unit and meaning stands in
// docs/operations/metrics.md.
//
// Guarantees: orlop_slots over its states sums to orlop_slots_assigned; open puts, waiting
// puts, prepared bytes and pins return to 0 when nobody does anything. Pure.
#pragma once

#include <string>

#include "node/process_memory.h"
#include "runtime/snapshot.h"

namespace orlop::node {

std::string metrics_text(const runtime::NodeSnapshot& snapshot, const ProcessMemory& memory);

}  // namespace orlop::node
