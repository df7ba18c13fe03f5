// SPDX-License-Identifier: Apache-2.0
#include "gpu/copy_request.h"

#include <string>

#include "gpu/copy_slices.h"

namespace orlop::gpu {

Result<std::vector<CompiledLayout::Strip>> check_request(const CopyRequest& request) {
  if (request.layout == nullptr) return fail(ErrorCode::kInvalidArgument, "copy: no layout");
  if (request.values.size() > kMostValuesOfCopy) {
    return fail(ErrorCode::kLimit,
                "copy: " + std::to_string(request.values.size()) + " values at once, at most " +
                    std::to_string(kMostValuesOfCopy) + " go into one job; split it");
  }
  for (std::size_t i = 0; i < request.values.size(); ++i) {
    if (request.values[i] == nullptr) {
      return fail(ErrorCode::kInvalidArgument,
                  "copy: the address of value " + std::to_string(i) + " is null");
    }
  }
  if (request.direction == CopyDirection::kBackup && !request.ranges.empty()) {
    return fail(ErrorCode::kInvalidArgument, "copy: layer ranges are for restores");
  }
  if (Result<void> right = request.layout->check_pages(request.values.size(), request.pages);
      !right) {
    return std::unexpected(std::move(right.error()));
  }
  return strips_of(*request.layout, request.ranges);
}

std::unexpected<Error> no_such_range(std::size_t range, std::size_t ranges) {
  return fail(ErrorCode::kInvalidArgument, "range " + std::to_string(range) + " of " +
                                               std::to_string(ranges) + " of the copy job");
}

}  // namespace orlop::gpu
