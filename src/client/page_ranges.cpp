// SPDX-License-Identifier: Apache-2.0
#include "client/page_ranges.h"

#include <algorithm>
#include <string>

namespace orlop::client {

using Strip = gpu::CompiledLayout::Strip;

namespace {

struct Taken {
  Strip strip;
  std::size_t range = 0;
};

std::unexpected<Error> invalid(std::size_t range, const std::string& text) {
  return fail(ErrorCode::kInvalidArgument, "ranges[" + std::to_string(range) + "]: " + text);
}

}  // namespace

Result<std::vector<Strip>> strips_left_out(const gpu::CompiledLayout& layout,
                                           std::span<const LayerRange> ranges) {
  std::vector<Strip> rest;
  if (ranges.empty()) return rest;
  std::vector<Taken> taken;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto strip = layout.strip(ranges[i]);
    if (!strip) return invalid(i, strip.error().message);
    if (strip->begin < strip->end) taken.push_back({*strip, i});
  }
  // The checksum takes words in pairs; a pair must not be torn between two copies or a copy and
  // the CPU.
  for (const Taken& one : taken) {
    if (one.strip.begin % 8 == 0 && (one.strip.end % 8 == 0 || one.strip.end == layout.value_len()))
      continue;
    return invalid(one.range, "takes bytes " + std::to_string(one.strip.begin) + " to " +
                                  std::to_string(one.strip.end) +
                                  " of the value, not from and to multiples of 8; give these "
                                  "layers and their neighbours in one range");
  }
  std::ranges::sort(taken, {}, [](const Taken& one) { return one.strip.begin; });
  std::uint64_t at = 0;
  for (const Taken& next : taken) {
    if (next.strip.begin < at)
      return invalid(next.range, "overlaps another range; name each layer once");
    if (next.strip.begin > at) rest.push_back({at, next.strip.begin});
    at = next.strip.end;
  }
  if (at < layout.value_len()) rest.push_back({at, layout.value_len()});
  return rest;
}

}  // namespace orlop::client
