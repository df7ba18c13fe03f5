// SPDX-License-Identifier: Apache-2.0
// The keeper's first act: making the node's memory, visibly, and waiting for it where that helps.
#pragma once

#include "node/options.h"
#include "orlop/error.h"
#include "runtime/segment_files.h"

namespace orlop::node {

// Refuses at once what could not fit even if nothing else ran; what does not fit now is tried again
// for options.memory_wait, saying why. A signal that waits on signal_fd ends it.
// Errors: kNoMemory (numbers), kClosed (signal), kInvalidArgument, kSystem.
Result<runtime::SegmentFiles> make_segment(const NodeOptions& options, int signal_fd);

}  // namespace orlop::node
