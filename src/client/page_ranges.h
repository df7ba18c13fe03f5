// SPDX-License-Identifier: Apache-2.0
// What ranges of layers leave out of a value: to be summed by the CPU, so that a restore of some
// layers is checked like a whole one. Pure.
#pragma once

#include <span>
#include <vector>

#include "gpu/compiled_layout.h"
#include "orlop/error.h"
#include "orlop/kv_layout.h"

namespace orlop::client {

// Ascending; none for no ranges (everything is copied). kInvalidArgument names the range: empty or
// beyond the layers, overlapping another, or with a border inside 8 bytes of the value.
Result<std::vector<gpu::CompiledLayout::Strip>> strips_left_out(const gpu::CompiledLayout& layout,
                                                                std::span<const LayerRange> ranges);

}  // namespace orlop::client
