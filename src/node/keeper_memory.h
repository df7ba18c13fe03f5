// SPDX-License-Identifier: Apache-2.0
// The keeper's first act: making the node's memory, visibly, and waiting for it where that helps.
#pragma once

#include <functional>
#include <string>

#include "node/options.h"
#include "orlop/error.h"
#include "runtime/segment_files.h"

namespace orlop::node {

struct MakingMemory {
  int signal_fd = -1;                // readable: a signal came, stop_asked() is to be called
  std::function<bool()> stop_asked;  // takes the signals; true: end it
  // Called about once a second while it takes long, with what it is doing in words.
  std::function<void(const std::string&)> busy;
};

// Refuses at once what could not fit even if nothing else ran; what does not fit now is tried again
// for options.memory_wait, saying why.
// Errors: kNoMemory (numbers), kClosed (stop asked), kInvalidArgument, kSystem.
Result<runtime::SegmentFiles> make_segment(const NodeOptions& options, const MakingMemory& making);

}  // namespace orlop::node
