// SPDX-License-Identifier: Apache-2.0
// A layout, some values and their pages, and what memory has to look like after a copy: worked out
// byte by byte with layout_model.h on images of both memories.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "gpu/compiled_layout.h"
#include "gpu/conformance/engine_under_test.h"
#include "gpu/conformance/layout_model.h"
#include "gpu/conformance/random_layout.h"
#include "gpu/page_copier.h"

namespace orlop::gpu::conformance {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(Rng& rng, std::size_t bytes);

// Stretches of the engine's two memories that a scene has for itself.
struct Stage {
  CacheMemory& cache;
  std::size_t cache_offset = 0, cache_bytes = 0;
  ValueMemory& values;
  std::size_t values_offset = 0, values_bytes = 0;

  Stage half(bool second) const;
};

enum class Placement : std::uint8_t { kAdjacent, kScattered };

class Scene {
 public:
  // Takes over the layout; bases must lie in the stage's cache. value_count: at most what pages and
  // stage have room for.
  Scene(const Stage& stage, Rng& rng, KvLayout layout, std::size_t value_count,
        Placement placement);
  // A random layout and a random number of values.
  static Scene random(const Stage& stage, Rng& rng, const RandomLayoutLimits& limits = {});

  // Both memories get random bytes, which the images keep.
  void fill(Rng& rng);
  // The request for all values; what it points to lives as long as the scene.
  CopyRequest request(CopyDirection direction, std::span<const LayerRange> ranges = {}) const;
  // Carries the copy out on the images. Empty ranges: all layers.
  void expect(CopyDirection direction, std::span<const LayerRange> ranges = {});
  // S of each value over the bytes of the ranges, as the value is in the image of value memory.
  std::vector<std::uint64_t> expected_sums(std::span<const LayerRange> ranges = {}) const;
  // Every byte of both stretches against the images; says where they differ first.
  testing::AssertionResult matches();

  const KvLayout& layout() const { return layout_; }
  const CompiledLayout& compiled() const { return *compiled_; }
  std::size_t value_count() const { return value_offsets_.size(); }
  std::span<std::byte> value(std::size_t i) const;  // in value memory, not the image
  Bytes& value_image() { return value_image_; }
  std::size_t value_offset(std::size_t i) const { return value_offsets_[i]; }  // in the image
  std::uint64_t cache_begin() const { return stage_.cache.address() + stage_.cache_offset; }
  Bytes& cache_image() { return cache_image_; }
  const ValuePages& pages(std::size_t i) const { return pages_[i]; }
  // Writes the image of value memory out, after a test changed it.
  void upload_values();

 private:
  void place_values(Rng& rng, std::size_t value_count, Placement placement);
  void choose_pages(Rng& rng);
  std::vector<ModelStrip> strips(std::span<const LayerRange> ranges) const;

  Stage stage_;
  KvLayout layout_;
  std::unique_ptr<CompiledLayout> compiled_;
  std::vector<std::size_t> value_offsets_;  // in the stretch of value memory
  std::vector<std::byte*> value_addresses_;
  std::vector<ValuePages> pages_;                      // by value
  std::vector<std::vector<std::int64_t>> page_lists_;  // by pool, as requests have them
  std::vector<std::span<const std::int64_t>> page_spans_;
  Bytes cache_image_, value_image_;
};

}  // namespace orlop::gpu::conformance
