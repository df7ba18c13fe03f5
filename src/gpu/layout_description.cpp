// SPDX-License-Identifier: Apache-2.0
// A layout in words: equal layers folded into one.
#include <cstddef>
#include <string>
#include <vector>

#include "base/units.h"
#include "gpu/compiled_layout.h"

namespace orlop::gpu {
namespace {

std::string text(std::uint64_t number) {
  return format_count(number);
}

std::string quoted(const std::string& name) {
  return name.empty() ? "" : " '" + name + "'";
}

std::string rows_of(const KvPart& part, const CompiledPart& compiled) {
  if (part.heads == 1 && part.tokens == 1) {
    return "one block of " + format_bytes(part.row_bytes) + " a page (opaque: no heads, no tokens)";
  }
  const std::uint64_t pieces = std::uint64_t{compiled.heads} * compiled.tokens;
  return text(part.heads) + " heads x " + text(part.tokens) + " tokens x " +
         format_bytes(part.row_bytes) + ", " + text(pieces) + (pieces == 1 ? " piece" : " pieces") +
         " of " + format_bytes(compiled.row_bytes) + " a page" +
         (compiled.row_bytes == part.row_bytes ? "" : " (merged)");
}

// All but the name and where it is.
std::string geometry(const KvPart& part, const CompiledPart& compiled) {
  return "pool " + text(part.pool) + ", " + rows_of(part, compiled) + ", " + text(part.pages) +
         (part.pages == 1 ? " page" : " pages " + format_bytes(part.page_stride) + " apart") +
         ", " + format_bytes(compiled.bytes) + " of the value";
}

struct Layer {
  std::uint32_t number = 0;
  std::size_t first_part = 0;
  std::vector<std::string> parts{};  // geometry
};

std::vector<Layer> layers_of(const KvLayout& layout, const CompiledLayout& compiled) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    const KvPart& part = layout.parts[i];
    if (layers.empty() || layers.back().number != part.layer) layers.push_back({part.layer, i});
    layers.back().parts.push_back(geometry(part, compiled.parts()[i]));
  }
  return layers;
}

// Equal neighbours become one entry, named after the first.
std::string layer_lines(const KvLayout& layout, const std::vector<Layer>& layers) {
  std::string lines;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end].parts == layers[i].parts &&
           layers[end].number == layers[end - 1].number + 1) {
      ++end;
    }
    lines += end == i + 1 ? "layer " + text(layers[i].number) + "\n"
                          : "layers " + text(layers[i].number) + " to " +
                                text(layers[end - 1].number) + ", each\n";
    for (std::size_t part = 0; part < layers[i].parts.size(); ++part) {
      const std::string& name = layout.parts[layers[i].first_part + part].name;
      lines += " " + (name.empty() ? " part " + text(part) : quoted(name)) + ": " +
               layers[i].parts[part] + "\n";
    }
    i = end;
  }
  return lines;
}

}  // namespace

std::string describe(const KvLayout& layout) {
  const Result<std::uint64_t> bytes = value_bytes(layout);
  if (!bytes) return "no layout: " + bytes.error().message + "\n";
  const Result<CompiledLayout> compiled = CompiledLayout::compile(layout, *bytes);
  if (!compiled) return "no layout: " + compiled.error().message + "\n";
  std::string lines = "value of " + text(*bytes) + " bytes, order layer, part, ";
  lines += layout.order == ValueOrder::kHeadTokenChannel ? "head, token, channel\n"
                                                         : "token, head, channel\n";
  for (std::size_t i = 0; i < layout.pools.size(); ++i) {
    const std::uint32_t pages = layout.pools[i].pages_per_value;
    lines += "pool " + text(i) + quoted(layout.pools[i].name) + ": " + text(pages) +
             (pages == 1 ? " page a value\n" : " pages a value\n");
  }
  return lines + layer_lines(layout, layers_of(layout, *compiled));
}

}  // namespace orlop::gpu
