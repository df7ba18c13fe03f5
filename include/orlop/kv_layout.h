// SPDX-License-Identifier: Apache-2.0
// Where an engine keeps the attention state of a page: raw addresses and strides, no engine types.
//
// One *value* of a namespace is the state of `page tokens` for all parts of this rank, in the
// canonical order: part by part in the order of `parts` (non-decreasing layer, so a range of layers
// is one strip of the value), inside a part **head, token, channel**. The order does not depend on
// how the engine strides its memory: two engines that keep the same model the one [token, head] and
// the other [head, token] write the same value, and a range of heads is one strip too.
//
//   // SGLang, page size 1, values of 16 tokens: 16 slots a value, any of them
//   KvLayout layout{.pools = {{"tokens", 16}}};
//   for (layer ...) for (part : {k, v})
//     layout.parts.push_back({.name = "layers.0.k", .layer = 0, .base = address, .pages = slots,
//                             .page_stride = heads * dim * 2, .heads = heads,
//                             .head_stride = dim * 2, .tokens = 1, .row_bytes = dim * 2});
//   // vLLM [pages, 2, tokens, heads, dim]: two parts a layer, base of V = base + its stride
//   // K and V packed in a row [.., heads, 2 * dim]: two parts, base of V = base + dim * 2
//   // MLA: one part a layer, heads = 1.  Recurrent state: one part, tokens = heads = 1, a pool
//   with
//   // one page a value.  Opaque block: one part, tokens = heads = 1, row_bytes = the whole block.
//
// Thread: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orlop {

// Pages of one numbering. A model with full attention, a sliding window and recurrent state has
// three; the caller gives one list of page numbers for each.
struct KvPool {
  std::string name{};                 // in errors and descriptions
  std::uint32_t pages_per_value = 1;  // engine pages that one value takes from this pool, 1..65,535
};

// One tensor of one layer.
struct KvPart {
  std::string name{};             // "layers.3.k": in errors and descriptions
  std::uint32_t layer = 0;        // not below the part before
  std::uint32_t pool = 0;         // index into KvLayout::pools
  std::uint64_t base = 0;         // address of page 0, head 0, token 0
  std::uint64_t pages = 0;        // pages of the tensor; page numbers are below it
  std::uint64_t page_stride = 0;  // bytes, as the other strides; any order, any gaps, no overlap
  std::uint32_t heads = 1;
  std::uint64_t head_stride = 0;   // not looked at when heads is 1
  std::uint32_t tokens = 1;        // of one engine page
  std::uint64_t token_stride = 0;  // not looked at when tokens is 1
  std::uint64_t row_bytes = 0;     // adjacent bytes of one head of one token (its channels)
};

// kTokenHeadChannel exists to be measured against and for layouts that must stay as they are;
// values of the two orders are different bytes, so the namespace's `layout` must name which.
enum class ValueOrder : std::uint8_t { kHeadTokenChannel, kTokenHeadChannel };

struct KvLayout {
  std::vector<KvPool> pools{{}};
  std::vector<KvPart> parts{};
  ValueOrder order = ValueOrder::kHeadTokenChannel;
};

// Layers [first, end).
struct LayerRange {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
};

}  // namespace orlop
