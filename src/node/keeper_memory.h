// SPDX-License-Identifier: Apache-2.0
// The keeper's first act: making the node's memory, visibly, and waiting for it where that helps.
#pragma once

#include <functional>
#include <string>

#include "node/options.h"
#include "orlop/error.h"
#include "runtime/segment_files.h"

namespace orlop::node {

// Refuses at once what could not fit even if nothing else ran; what does not fit now is tried again
// for options.memory_wait, saying why. A signal that waits on signal_fd ends it. busy: called about
// once a second while it takes long, with what it is doing in words.
// Errors: kNoMemory (numbers), kClosed (signal), kInvalidArgument, kSystem.
Result<runtime::SegmentFiles> make_segment(const NodeOptions& options, int signal_fd,
                                           const std::function<void(const std::string&)>& busy);

}  // namespace orlop::node
