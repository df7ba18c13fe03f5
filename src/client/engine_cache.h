// SPDX-License-Identifier: Apache-2.0
// Test support: a paged cache as an engine has it, in CPU memory, in one of several physical
// layouts; pages whose bytes follow from a seed and are the same in all of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "orlop/kv_layout.h"

namespace orlop::client::testing {

// Sizes of one model; a value of one page has layers * 2 * heads * tokens * row bytes.
struct CacheShape {
  std::uint32_t layers = 4, heads = 4, tokens = 16;
  std::uint64_t row = 32;
  std::uint32_t value_len() const {
    return static_cast<std::uint32_t>(layers * 2 * heads * tokens * row);
  }
};

enum class Physical : std::uint8_t {
  kTokenHead,  // [kv][page][token][head][row], a tensor a layer
  kHeadToken,  // [page][kv][head][token][row], with a gap behind every page
  kPacked,     // K and V of a row side by side: [page][token][head][2 * row]
};

class EngineCache {
 public:
  EngineCache(CacheShape shape, Physical physical, std::uint64_t pages)
      : shape_(shape), physical_(physical), pages_(pages) {
    const std::uint64_t gap = physical == Physical::kHeadToken ? kGap : 0;
    page_ = shape.heads * shape.tokens * shape.row;
    layer_bytes_ = pages * (2 * page_ + gap);
    memory_.assign(shape.layers * layer_bytes_, kPadding);
    layout_ = layout_at(reinterpret_cast<std::uint64_t>(memory_.data()));
  }
  const KvLayout& layout() const { return layout_; }
  std::uint64_t pages() const { return pages_; }
  // The same layout over other memory of memory_bytes().
  std::size_t memory_bytes() const { return memory_.size(); }
  KvLayout layout_at(std::uint64_t memory) const {
    KvLayout layout{.pools = {{.name = "pages", .pages_per_value = 1}}};
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint32_t kv = 0; kv < 2; ++kv)
        layout.parts.push_back(part(memory + layer * layer_bytes_, layer, kv));
    return layout;
  }

  void fill(std::int64_t page, std::uint64_t seed) {
    each_row(page, [&](std::byte* at, std::uint64_t row) {
      for (std::uint64_t i = 0; i < shape_.row; ++i) at[i] = byte_of(seed, row * shape_.row + i);
    });
  }
  void clear(std::byte value = std::byte{0}) {
    for (std::uint64_t page = 0; page < pages_; ++page)
      each_row(static_cast<std::int64_t>(page),
               [&](std::byte* at, std::uint64_t) { std::memset(at, int(value), shape_.row); });
  }
  bool holds(std::int64_t page, std::uint64_t seed) const {
    bool same = true;
    const_cast<EngineCache*>(this)->each_row(page, [&](const std::byte* at, std::uint64_t row) {
      for (std::uint64_t i = 0; i < shape_.row; ++i)
        same = same && at[i] == byte_of(seed, row * shape_.row + i);
    });
    return same;
  }
  // Layers [first, end) of a page.
  bool holds_layers(std::int64_t page, std::uint64_t seed, LayerRange range) const {
    bool same = true;
    const std::uint64_t rows = std::uint64_t{2} * shape_.heads * shape_.tokens;
    const_cast<EngineCache*>(this)->each_row(page, [&](const std::byte* at, std::uint64_t row) {
      if (row / rows < range.first || row / rows >= range.end) return;
      for (std::uint64_t i = 0; i < shape_.row; ++i)
        same = same && at[i] == byte_of(seed, row * shape_.row + i);
    });
    return same;
  }
  bool padding_intact() const {
    if (physical_ != Physical::kHeadToken) return true;
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer)
      for (std::uint64_t page = 0; page < pages_; ++page)
        for (std::uint64_t i = 0; i < kGap; ++i)
          if (memory_[layer * layer_bytes_ + page * (2 * page_ + kGap) + 2 * page_ + i] != kPadding)
            return false;
    return true;
  }
  // The value of a page in the canonical order.
  std::vector<std::byte> value(std::uint64_t seed) const {
    std::vector<std::byte> bytes(shape_.value_len());
    for (std::uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(seed, i);
    return bytes;
  }

 private:
  static constexpr std::uint64_t kGap = 64;
  static constexpr std::byte kPadding{0x5a};

  static std::byte byte_of(std::uint64_t seed, std::uint64_t i) {
    std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    return static_cast<std::byte>(x >> 56);
  }
  KvPart part(std::uint64_t base, std::uint32_t layer, std::uint32_t kv) const {
    KvPart part{.name = "layers." + std::to_string(layer) + (kv == 0 ? ".k" : ".v"),
                .layer = layer,
                .base = base,
                .pages = pages_,
                .heads = shape_.heads,
                .tokens = shape_.tokens,
                .row_bytes = shape_.row};
    switch (physical_) {
      case Physical::kTokenHead:
        part.base += kv * pages_ * page_;
        part.page_stride = page_;
        part.token_stride = shape_.heads * shape_.row;
        part.head_stride = shape_.row;
        break;
      case Physical::kHeadToken:
        part.base += kv * page_;
        part.page_stride = 2 * page_ + kGap;
        part.head_stride = shape_.tokens * shape_.row;
        part.token_stride = shape_.row;
        break;
      case Physical::kPacked:
        part.base += kv * shape_.row;
        part.page_stride = 2 * page_;
        part.token_stride = shape_.heads * 2 * shape_.row;
        part.head_stride = 2 * shape_.row;
        break;
    }
    return part;
  }
  // Rows in the canonical order: layer, K then V, head, token.
  template <class Visit>
  void each_row(std::int64_t page, Visit visit) {
    std::uint64_t row = 0;
    for (const KvPart& part : layout_.parts) {
      for (std::uint32_t h = 0; h < part.heads; ++h) {
        for (std::uint32_t t = 0; t < part.tokens; ++t, ++row) {
          const std::uint64_t at = part.base + static_cast<std::uint64_t>(page) * part.page_stride +
                                   h * part.head_stride + t * part.token_stride;
          visit(memory_.data() + (at - reinterpret_cast<std::uint64_t>(memory_.data())), row);
        }
      }
    }
  }

  CacheShape shape_;
  Physical physical_;
  std::uint64_t pages_, page_ = 0, layer_bytes_ = 0;
  std::vector<std::byte> memory_;
  KvLayout layout_;
};

}  // namespace orlop::client::testing
