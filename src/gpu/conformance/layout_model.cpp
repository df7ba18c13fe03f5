// SPDX-License-Identifier: Apache-2.0
#include "gpu/conformance/layout_model.h"

namespace orlop::gpu::conformance {
namespace {

void add_row(const KvPart& part, std::int64_t number, std::uint32_t head, std::uint32_t token,
             std::vector<std::uint64_t>& addresses) {
  std::uint64_t row = part.base + static_cast<std::uint64_t>(number) * part.page_stride;
  if (part.heads > 1) row += head * part.head_stride;
  if (part.tokens > 1) row += token * part.token_stride;
  for (std::uint64_t channel = 0; channel < part.row_bytes; ++channel) {
    addresses.push_back(row + channel);
  }
}

}  // namespace

std::vector<std::uint64_t> addresses_of_value(const KvLayout& layout, const ValuePages& pages) {
  std::vector<std::uint64_t> addresses;
  for (const KvPart& part : layout.parts) {
    const std::vector<std::int64_t>& numbers = pages[part.pool];
    if (layout.order == ValueOrder::kHeadTokenChannel) {
      for (std::uint32_t head = 0; head < part.heads; ++head) {
        for (const std::int64_t number : numbers) {
          for (std::uint32_t token = 0; token < part.tokens; ++token) {
            add_row(part, number, head, token, addresses);
          }
        }
      }
    } else {
      for (const std::int64_t number : numbers) {
        for (std::uint32_t token = 0; token < part.tokens; ++token) {
          for (std::uint32_t head = 0; head < part.heads; ++head) {
            add_row(part, number, head, token, addresses);
          }
        }
      }
    }
  }
  return addresses;
}

ModelStrip strip_of_layers(const KvLayout& layout, LayerRange range) {
  ModelStrip strip;
  for (const KvPart& part : layout.parts) {
    const std::uint64_t bytes =
        part.row_bytes * part.heads * part.tokens * layout.pools[part.pool].pages_per_value;
    if (part.layer < range.first) strip.begin += bytes;
    if (part.layer < range.end) strip.end += bytes;
  }
  return strip;
}

}  // namespace orlop::gpu::conformance
