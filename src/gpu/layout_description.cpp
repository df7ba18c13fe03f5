// SPDX-License-Identifier: Apache-2.0
// A layout in words: equal layers folded into one line.
#include <string>
#include <vector>

#include "gpu/compiled_layout.h"

namespace orlop::gpu {
namespace {

// What makes two parts of different layers alike: all but name, layer and address.
bool alike(const KvPart& a, const KvPart& b) {
  return a.pool == b.pool && a.pages == b.pages && a.page_stride == b.page_stride &&
         a.heads == b.heads && a.head_stride == b.head_stride && a.tokens == b.tokens &&
         a.token_stride == b.token_stride && a.row_bytes == b.row_bytes;
}

// Parts of one layer: [first, end).
struct Layer {
  std::size_t first = 0, end = 0;
};

std::vector<Layer> layers_of(const KvLayout& layout) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    if (layers.empty() || layout.parts[i].layer != layout.parts[layers.back().first].layer)
      layers.push_back({i, i});
    layers.back().end = i + 1;
  }
  return layers;
}

bool alike(const KvLayout& layout, const Layer& a, const Layer& b) {
  if (a.end - a.first != b.end - b.first) return false;
  for (std::size_t i = 0; i < a.end - a.first; ++i)
    if (!alike(layout.parts[a.first + i], layout.parts[b.first + i])) return false;
  return true;
}

std::string describe(const KvPart& part, const KvLayout& layout) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const std::string pool = part.pool < layout.pools.size() && !layout.pools[part.pool].name.empty()
                               ? layout.pools[part.pool].name
                               : "pool " + number(part.pool);
  std::string text = "    " + (part.name.empty() ? std::string("(no name)") : part.name) + ": ";
  if (part.heads == 1 && part.tokens == 1) {
    text += "opaque, " + number(part.row_bytes) + " bytes a page";
  } else {
    text += number(part.heads) + " heads x " + number(part.tokens) + " tokens x " +
            number(part.row_bytes) + " bytes, strides " + number(part.head_stride) + ", " +
            number(part.token_stride);
  }
  return text + "; " + number(part.pages) + " pages of " + pool + ", stride " +
         number(part.page_stride) + "\n";
}

}  // namespace

std::string describe(const KvLayout& layout) {
  const auto bytes = value_bytes(layout);
  std::string text = "value of " + (bytes ? std::to_string(*bytes) + " bytes" : "unknown size") +
                     ", order " +
                     (layout.order == ValueOrder::kHeadTokenChannel ? "layer, part, head, token"
                                                                    : "layer, part, token, head") +
                     ", channel\n";
  for (const KvPool& pool : layout.pools) {
    text += "  pool " + (pool.name.empty() ? std::string("(no name)") : pool.name) + ": " +
            std::to_string(pool.pages_per_value) + " pages a value\n";
  }
  const std::vector<Layer> layers = layers_of(layout);
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && alike(layout, layers[i], layers[last + 1])) ++last;
    const std::uint32_t from = layout.parts[layers[i].first].layer;
    const std::uint32_t to = layout.parts[layers[last].first].layer;
    text += from == to ? "  layer " + std::to_string(from) + "\n"
                       : "  layers " + std::to_string(from) + " to " + std::to_string(to) +
                             ", each like\n";
    for (std::size_t part = layers[i].first; part < layers[i].end; ++part)
      text += describe(layout.parts[part], layout);
    i = last + 1;
  }
  return text;
}

}  // namespace orlop::gpu
