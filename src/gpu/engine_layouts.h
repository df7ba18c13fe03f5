// SPDX-License-Identifier: Apache-2.0
// Test support of room gpu: the layouts of real engines, written from their documentation of tensor
// shapes. Addresses are made up; nothing is there.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "orlop/kv_layout.h"

namespace orlop::gpu {

inline constexpr std::uint64_t kFirstAddress = 0x7f00'0000'0000;
inline constexpr std::uint32_t kTestLayers = 4;
inline constexpr std::uint32_t kTestHeads = 8;
inline constexpr std::uint64_t kTestRow = 256;  // 128 channels of bf16

// A part for each layer and of K and V; `place` sets base (an offset) and strides.
template <class Place>
KvLayout layout_of_layers(std::uint32_t pages_per_value, Place place) {
  KvLayout layout;
  layout.pools[0].pages_per_value = pages_per_value;
  for (std::uint32_t layer = 0; layer < kTestLayers; ++layer) {
    for (std::uint32_t kv = 0; kv < 2; ++kv) {
      KvPart part{.name = "layers." + std::to_string(layer) + (kv == 0 ? ".k" : ".v"),
                  .layer = layer,
                  .heads = kTestHeads,
                  .row_bytes = kTestRow};
      place(part, layer, kv);
      part.base += kFirstAddress;
      layout.parts.push_back(std::move(part));
    }
  }
  return layout;
}

// k_buffer[layer][slot, head, channel], v_buffer the same; page_tokens slots are a page.
inline KvLayout sglang_layout(std::uint32_t page_tokens, std::uint32_t value_tokens = 64) {
  constexpr std::uint64_t kSlots = 4096;
  return layout_of_layers(value_tokens / page_tokens, [&](KvPart& part, auto layer, auto kv) {
    part.tokens = page_tokens;
    part.head_stride = kTestRow;
    part.token_stride = kTestHeads * kTestRow;
    part.page_stride = page_tokens * part.token_stride;
    part.pages = kSlots / page_tokens;
    part.base = (2 * layer + kv) * kSlots * part.token_stride;
  });
}

// vLLM, 16 tokens a block.
inline constexpr std::uint64_t kBlocks = 100, kBlockTokens = 16;
inline constexpr std::uint64_t kHalfBlock = kBlockTokens * kTestHeads * kTestRow;  // K or V

inline void stride_nhd(KvPart& part) {
  part.pages = kBlocks;
  part.tokens = kBlockTokens;
  part.head_stride = kTestRow;
  part.token_stride = kTestHeads * kTestRow;
}
inline void stride_hnd(KvPart& part) {
  part.pages = kBlocks;
  part.tokens = kBlockTokens;
  part.token_stride = kTestRow;
  part.head_stride = kBlockTokens * kTestRow;
}

// [layer][2, blocks, tokens, heads, channels]
inline KvLayout vllm_two_blocks_nhd() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    stride_nhd(part);
    part.page_stride = kHalfBlock;
    part.base = (2 * layer + kv) * kBlocks * kHalfBlock;
  });
}
// [layer][blocks, 2, tokens, heads, channels]
inline KvLayout vllm_blocks_two_nhd() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    stride_nhd(part);
    part.page_stride = 2 * kHalfBlock;
    part.base = 2 * layer * kBlocks * kHalfBlock + kv * kHalfBlock;
  });
}
// [layer][blocks, 2, heads, tokens, channels]
inline KvLayout vllm_blocks_two_hnd() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    stride_hnd(part);
    part.page_stride = 2 * kHalfBlock;
    part.base = 2 * layer * kBlocks * kHalfBlock + kv * kHalfBlock;
  });
}
// [layer][blocks, tokens, heads, 2 * channels]: K and V of a head side by side
inline KvLayout packed_channels() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    part.pages = kBlocks;
    part.tokens = kBlockTokens;
    part.head_stride = 2 * kTestRow;
    part.token_stride = 2 * kTestHeads * kTestRow;
    part.page_stride = 2 * kHalfBlock;
    part.base = 2 * layer * kBlocks * kHalfBlock + kv * kTestRow;
  });
}
// [blocks, layers, 2, tokens, heads, channels]: one tensor for all layers
inline KvLayout across_layers() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    stride_nhd(part);
    part.page_stride = 2 * kTestLayers * kHalfBlock;
    part.base = (2 * layer + kv) * kHalfBlock;
  });
}
// [layers, heads, blocks, tokens, channels]: heads outside of blocks
inline KvLayout heads_outside() {
  return layout_of_layers(1, [](KvPart& part, auto layer, auto kv) {
    part.pages = kBlocks;
    part.tokens = kBlockTokens;
    part.token_stride = kTestRow;
    part.page_stride = kBlockTokens * kTestRow;
    part.head_stride = kBlocks * part.page_stride;
    part.base = (2 * layer + kv) * kBlocks * kHalfBlock;
  });
}
// Latent attention: one part a layer, one "head"; 64 tokens a block.
inline KvLayout latent(std::uint64_t row_bytes) {
  KvLayout layout;
  for (std::uint32_t layer = 0; layer < kTestLayers; ++layer) {
    layout.parts.push_back({.name = "layers." + std::to_string(layer) + ".latent",
                            .layer = layer,
                            .base = kFirstAddress + layer * kBlocks * 64 * row_bytes,
                            .pages = kBlocks,
                            .page_stride = 64 * row_bytes,
                            .tokens = 64,
                            .token_stride = row_bytes,
                            .row_bytes = row_bytes});
  }
  return layout;
}
// Full attention in 4 blocks a value, a sliding window in 1, recurrent state in 1.
inline KvLayout hybrid() {
  KvLayout layout;
  layout.pools = {{"full", 4}, {"window", 1}, {"state", 1}};
  for (std::uint32_t layer = 0; layer < 6; ++layer) {
    KvPart part{.name = "layers." + std::to_string(layer),
                .layer = layer,
                .pool = layer % 3,
                .base = kFirstAddress + (std::uint64_t{layer} << 24),
                .pages = kBlocks};
    if (part.pool == 2) {
      part.row_bytes = 20'000;
      part.page_stride = 20'480;
    } else {
      stride_hnd(part);
      part.heads = kTestHeads;
      part.row_bytes = kTestRow;
      part.page_stride = kHalfBlock;
    }
    layout.parts.push_back(std::move(part));
  }
  return layout;
}
inline KvLayout opaque_block() {
  KvLayout layout;
  layout.parts.push_back({.name = "block",
                          .base = kFirstAddress,
                          .pages = 10,
                          .page_stride = 1 << 20,
                          .row_bytes = 1 << 20});
  return layout;
}

}  // namespace orlop::gpu
