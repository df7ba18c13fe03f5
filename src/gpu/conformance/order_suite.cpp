// SPDX-License-Identifier: Apache-2.0
// One value, whatever the engine's strides: two caches that hold the same state write the same
// bytes, and each reads what the other wrote.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

constexpr std::uint32_t kHeads = 4, kTokens = 16, kLayers = 3;
constexpr std::uint64_t kDim = 64;  // bytes of a row
constexpr std::uint64_t kPageBytes = kHeads * kTokens * kDim;

// How a cache keeps K and V of all layers; every one of 2 * kLayers * pages * kPageBytes bytes.
enum class Cache { kNhd, kHnd, kPacked, kAcrossLayers, kHeadMajor, kTokenSlots };
constexpr Cache kCaches[] = {Cache::kNhd,          Cache::kHnd,       Cache::kPacked,
                             Cache::kAcrossLayers, Cache::kHeadMajor, Cache::kTokenSlots};

void stride(Cache cache, std::uint64_t pages, std::uint64_t layer, std::uint64_t kv, KvPart& part) {
  const std::uint64_t tensor = pages * kPageBytes;
  part.page_stride = kPageBytes;
  part.token_stride = kHeads * kDim;
  part.head_stride = kDim;
  std::uint64_t offset = (2 * layer + kv) * tensor;
  switch (cache) {
    case Cache::kNhd:  // [layer][kv][page][token][head]
      break;
    case Cache::kHnd:  // [layer][kv][page][head][token]
      part.head_stride = kTokens * kDim;
      part.token_stride = kDim;
      break;
    case Cache::kPacked:  // [layer][page][token][head][kv]
      part.page_stride = 2 * kPageBytes;
      part.token_stride = 2 * kHeads * kDim;
      part.head_stride = 2 * kDim;
      offset = 2 * layer * tensor + kv * kDim;
      break;
    case Cache::kAcrossLayers:  // [page][layer][kv][token][head]
      part.page_stride = 2 * kLayers * kPageBytes;
      offset = (2 * layer + kv) * kPageBytes;
      break;
    case Cache::kHeadMajor:  // [layer][kv][head][page][token]
      part.head_stride = pages * kTokens * kDim;
      part.page_stride = kTokens * kDim;
      part.token_stride = kDim;
      break;
    case Cache::kTokenSlots:  // [layer][kv][slot][head], 16 slots a value
      part.pages = pages * kTokens;
      part.page_stride = kHeads * kDim;
      part.tokens = 1;
      break;
  }
  part.base += offset;
}

KvLayout layout_of(Cache cache, std::uint64_t first_address, std::uint64_t pages,
                   ValueOrder order) {
  KvLayout layout;
  layout.order = order;
  layout.pools[0].pages_per_value = cache == Cache::kTokenSlots ? kTokens : 1;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    for (std::uint64_t kv = 0; kv < 2; ++kv) {
      KvPart part{.name = "part",
                  .layer = layer,
                  .base = first_address,
                  .pages = pages,
                  .heads = kHeads,
                  .tokens = kTokens,
                  .row_bytes = kDim};
      stride(cache, pages, layer, kv, part);
      layout.parts.push_back(std::move(part));
    }
  }
  return layout;
}

// Writes known values through one cache, reads them back through another and compares the values.
TEST_P(CopierConformance, Values_do_not_depend_on_how_a_cache_is_strided) {
  constexpr std::uint64_t kPages = 10;
  Rng rng(12);
  for (const ValueOrder order : {ValueOrder::kHeadTokenChannel, ValueOrder::kTokenHeadChannel}) {
    std::vector<Bytes> known;
    std::vector<std::uint64_t> sums;
    for (const Cache cache : kCaches) {
      SCOPED_TRACE(static_cast<int>(cache));
      Scene scene(small_stage(), rng, layout_of(cache, cache_->address(), kPages, order), 6,
                  Placement::kScattered);
      ASSERT_EQ(scene.value_count(), 6U);
      scene.fill(rng);
      if (known.empty()) {
        for (std::size_t i = 0; i < 6; ++i)
          known.push_back(random_bytes(rng, 2 * kLayers * kPageBytes));
      }
      for (std::size_t i = 0; i < 6; ++i) {
        std::ranges::copy(known[i], scene.value_image().begin() +
                                        static_cast<std::ptrdiff_t>(scene.value_offset(i)));
      }
      scene.upload_values();
      const auto restore = run(scene.request(CopyDirection::kRestore));
      ASSERT_NE(restore, nullptr);
      scene.expect(CopyDirection::kRestore);
      ASSERT_TRUE(scene.matches());
      // Out of the cache again, over other bytes.
      for (std::size_t i = 0; i < 6; ++i) std::ranges::fill(scene.value(i), std::byte{0xee});
      const auto backup = run(scene.request(CopyDirection::kBackup));
      ASSERT_NE(backup, nullptr);
      for (std::size_t i = 0; i < 6; ++i) ASSERT_TRUE(std::ranges::equal(scene.value(i), known[i]));
      if (sums.empty()) sums = sums_of(*backup);
      ASSERT_EQ(sums_of(*backup), sums);
      ASSERT_EQ(sums_of(*restore), sums);
    }
  }
}

// The order itself, so that an engine and the model cannot agree on a wrong one: a byte that says
// where it is.
TEST_P(CopierConformance, Heads_come_before_tokens_in_a_value) {
  constexpr std::uint64_t kPages = 4;
  Rng rng(13);
  Scene scene(small_stage(), rng,
              layout_of(Cache::kNhd, cache_->address(), kPages, ValueOrder::kHeadTokenChannel), 1,
              Placement::kAdjacent);
  scene.fill(rng);
  const auto page = static_cast<std::uint64_t>(scene.pages(0)[0][0]);
  Bytes& cache = scene.cache_image();
  for (std::uint64_t part = 0; part < 2 * kLayers; ++part) {
    for (std::uint64_t token = 0; token < kTokens; ++token) {
      for (std::uint64_t head = 0; head < kHeads; ++head) {
        cache[part * kPages * kPageBytes + page * kPageBytes + (token * kHeads + head) * kDim] =
            static_cast<std::byte>(part * 100 + head * 20 + token);
      }
    }
  }
  cache_->upload(0, cache);
  ASSERT_NE(run(scene.request(CopyDirection::kBackup)), nullptr);
  for (std::uint64_t part = 0; part < 2 * kLayers; ++part) {
    for (std::uint64_t head = 0; head < kHeads; ++head) {
      for (std::uint64_t token = 0; token < kTokens; ++token) {
        EXPECT_EQ(scene.value(0)[part * kPageBytes + (head * kTokens + token) * kDim],
                  static_cast<std::byte>(part * 100 + head * 20 + token));
      }
    }
  }
}

}  // namespace
}  // namespace orlop::gpu::conformance
