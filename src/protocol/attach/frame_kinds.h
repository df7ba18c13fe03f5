// SPDX-License-Identifier: Apache-2.0
// Internal to room attach: what a frame's kind alone says. Thread: pure functions, any.
#pragma once

#include <string_view>

#include "protocol/attach/frames.h"

namespace orlop::protocol {

// For messages: "hand_over". Empty for a number that is no kind.
std::string_view name_of(FrameKind kind);
// It has no fields.
bool is_bare(FrameKind kind);

}  // namespace orlop::protocol
