// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: what every engine asks of a request.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

// Slices and kernels count values in 32 bits.
inline constexpr std::size_t kMostValuesOfCopy = std::size_t{1} << 31;

// The strips of the request's ranges, in their order; one for a request without. kInvalidArgument
// names what is wrong: layout or a value missing, ranges of a backup, page numbers
// (CompiledLayout::check_pages), ranges (strips_of). kLimit: more than kMostValuesOfCopy.
Result<std::vector<CompiledLayout::Strip>> check_request(const CopyRequest& request);

// kInvalidArgument: of CopyJob::stream_wait.
std::unexpected<Error> no_such_range(std::size_t range, std::size_t ranges);

}  // namespace orlop::gpu
