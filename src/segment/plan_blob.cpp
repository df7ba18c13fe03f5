// SPDX-License-Identifier: Apache-2.0
#include "segment/plan_blob.h"

#include <algorithm>

#include "base/check.h"

namespace orlop::segment {
namespace {

// An empty range would share its offset with a neighbour, and free() could not tell them apart.
std::uint64_t rounded(std::uint64_t bytes) {
  return align_up(std::max<std::uint64_t>(bytes, 1), kCacheLine);
}

}  // namespace

RangeAllocator::RangeAllocator(std::uint64_t bytes) : total_(bytes / kCacheLine * kCacheLine) {
  reset();
}

std::optional<std::uint64_t> RangeAllocator::allocate(std::uint64_t bytes) {
  if (bytes > total_) return std::nullopt;
  const std::uint64_t size = rounded(bytes);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->bytes < size) continue;
    const std::uint64_t offset = it->offset;
    it->offset += size;
    it->bytes -= size;
    if (it->bytes == 0) free_.erase(it);
    used_ += size;
    return offset;
  }
  return std::nullopt;
}

void RangeAllocator::free(std::uint64_t offset, std::uint64_t bytes) {
  CHECK(bytes <= total_ && offset <= total_ && offset % kCacheLine == 0);
  const std::uint64_t size = rounded(bytes);
  CHECK(size <= total_ - offset && size <= used_);
  auto after = std::lower_bound(free_.begin(), free_.end(), offset,
                                [](const Range& r, std::uint64_t at) { return r.offset < at; });
  const bool joins_after = after != free_.end() && offset + size == after->offset;
  CHECK(after == free_.end() || offset + size <= after->offset, "range freed twice");
  const auto before = after == free_.begin() ? free_.end() : after - 1;
  CHECK(before == free_.end() || before->offset + before->bytes <= offset, "range freed twice");
  const bool joins_before = before != free_.end() && before->offset + before->bytes == offset;

  used_ -= size;
  if (joins_before && joins_after) {
    before->bytes += size + after->bytes;
    free_.erase(after);
  } else if (joins_before) {
    before->bytes += size;
  } else if (joins_after) {
    after->offset = offset;
    after->bytes += size;
  } else {
    free_.insert(after, Range{offset, size});
  }
}

void RangeAllocator::reset() {
  used_ = 0;
  free_.clear();
  if (total_ > 0) free_.push_back({0, total_});
}

}  // namespace orlop::segment
