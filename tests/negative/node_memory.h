// SPDX-License-Identifier: Apache-2.0
// The daemon's memory from outside, writable: for faults that no client can cause. Works for the
// user that the daemon runs as.
#pragma once

#include <memory>

#include "daemon.h"
#include "platform/mapping.h"
#include "segment/control_area.h"

namespace orlop::negative_test {

struct ControlMemory {
  Mapping mapping;
  segment::ControlArea area;
};
// CHECKs that it finds it.
std::unique_ptr<ControlMemory> open_control_memory(const process_test::Daemon& daemon);

}  // namespace orlop::negative_test
