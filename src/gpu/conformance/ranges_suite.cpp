// SPDX-License-Identifier: Apache-2.0
// Restores in ranges of layers.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

// Cuts the layers at random; `keep`: of so many ranges out of ten.
std::vector<LayerRange> random_ranges(Rng& rng, const CompiledLayout& layout, std::uint64_t keep) {
  std::vector<LayerRange> ranges;
  for (std::uint32_t layer = 0; layer < layout.layers();) {
    const auto end = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(layout.layers(), layer + rng.between(1, 3)));
    if (rng.uniform(10) < keep || (end == layout.layers() && ranges.empty())) {
      ranges.push_back({layer, end});
    }
    layer = end;
  }
  std::ranges::shuffle(ranges, rng);
  return ranges;
}

// A layout whose layers all begin at multiples of 8 bytes, so that any range may be asked for.
Scene even_scene(const Stage& stage, Rng& rng, RandomLayoutLimits limits) {
  limits.ragged = false;
  Scene scene = Scene::random(stage, rng, limits);
  scene.fill(rng);
  return scene;
}

TEST_P(CopierConformance, Ranges_in_any_order_arrive_as_the_whole) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(4000 + seed);
    Scene scene = even_scene(small_stage(), rng, small_limits());
    const std::vector<LayerRange> ranges = random_ranges(rng, scene.compiled(), 10);
    const auto job = run(scene.request(CopyDirection::kRestore, ranges));
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(job->ranges(), ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) ASSERT_TRUE(job->range_done(i));
    ASSERT_EQ(sums_of(*job), scene.expected_sums());  // of the whole value
    scene.expect(CopyDirection::kRestore);
    ASSERT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, Layers_that_no_range_names_are_left_alone) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(5000 + seed);
    Scene scene = even_scene(small_stage(), rng, small_limits());
    const std::vector<LayerRange> ranges = random_ranges(rng, scene.compiled(), 5);
    const auto job = run(scene.request(CopyDirection::kRestore, ranges));
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(sums_of(*job), scene.expected_sums(ranges));
    scene.expect(CopyDirection::kRestore, ranges);
    ASSERT_TRUE(scene.matches());
  }
}

// What follows a range in a stream sees its bytes, whatever the later ranges do.
TEST_P(CopierConformance, Stream_that_waits_for_a_range_sees_its_bytes) {
  void* const stream = engine_->make_stream();
  constexpr std::uint64_t kPages = 24;
  constexpr std::uint64_t kRow = 16 * 1024;
  constexpr std::uint32_t kLayers = 8;
  KvLayout layout;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    layout.parts.push_back({.name = "layer",
                            .layer = layer,
                            .base = cache_->address() + layer * kPages * kRow,
                            .pages = kPages,
                            .page_stride = kRow,
                            .row_bytes = kRow});
  }
  std::vector<LayerRange> ranges;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) ranges.push_back({layer, layer + 1});
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(6000 + seed);
    Scene scene(stage(), rng, layout, kPages, Placement::kAdjacent);
    scene.fill(rng);
    scene.expect(CopyDirection::kRestore);
    auto job = copier_->submit(scene.request(CopyDirection::kRestore, ranges));
    ASSERT_TRUE(job.has_value());
    for (std::size_t range = 0; range < ranges.size(); ++range) {
      ASSERT_TRUE((*job)->stream_wait(range, stream).has_value());
      Bytes seen(kPages * kRow);
      cache_->read_in_stream(stream, range * kPages * kRow, seen);
      const auto expected =
          std::span(scene.cache_image()).subspan(range * kPages * kRow, seen.size());
      ASSERT_TRUE(std::ranges::equal(seen, expected)) << "range " << range;
    }
    ASSERT_TRUE((*job)->wait(kPatience));
    ASSERT_TRUE((*job)->result().has_value());
  }
}

TEST_P(CopierConformance, Backup_waits_for_the_stream_it_is_given) {
  void* const stream = engine_->make_stream();
  constexpr std::uint64_t kRow = 32 * 1024;
  KvLayout layout;
  layout.parts.push_back({.name = "opaque",
                          .base = cache_->address(),
                          .pages = 16,
                          .page_stride = kRow,
                          .row_bytes = kRow});
  Rng rng(10);
  for (int i = 0; i < 10; ++i) {
    Scene scene(stage(), rng, layout, 16, Placement::kScattered);
    scene.fill(rng);
    const Bytes later = random_bytes(rng, 16 * kRow);
    std::ranges::copy(later, scene.cache_image().begin());
    cache_->write_in_stream(stream, 0, later);
    CopyRequest request = scene.request(CopyDirection::kBackup);
    request.stream = stream;
    ASSERT_NE(run(request), nullptr);
    scene.expect(CopyDirection::kBackup);
    ASSERT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, Ranges_without_parts_are_done_and_empty) {
  KvLayout layout;
  layout.parts.push_back({.name = "layers.5",
                          .layer = 5,
                          .base = cache_->address(),
                          .pages = 8,
                          .page_stride = 4096,
                          .row_bytes = 4096});
  Rng rng(11);
  Scene scene(small_stage(), rng, layout, 4, Placement::kAdjacent);
  scene.fill(rng);
  const std::vector<LayerRange> ranges{{0, 3}, {5, 6}, {3, 5}};
  const auto job = run(scene.request(CopyDirection::kRestore, ranges));
  ASSERT_NE(job, nullptr);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(job->range_done(i)) << i;
  EXPECT_EQ(sums_of(*job), scene.expected_sums());
  scene.expect(CopyDirection::kRestore);
  EXPECT_TRUE(scene.matches());
}

TEST_P(CopierConformance, Range_without_parts_may_lie_between_ragged_layers) {
  KvLayout layout;
  for (const std::uint32_t layer : {0U, 2U}) {
    layout.parts.push_back({.name = "layer",
                            .layer = layer,
                            .base = cache_->address() + layer * 4096,
                            .pages = 8,
                            .page_stride = 12,
                            .row_bytes = 12});
  }
  Rng rng(14);
  Scene scene(small_stage(), rng, layout, 4, Placement::kAdjacent);
  scene.fill(rng);
  const std::vector<LayerRange> ranges{{1, 2}};
  const auto job = run(scene.request(CopyDirection::kRestore, ranges));
  ASSERT_NE(job, nullptr);
  EXPECT_TRUE(job->range_done(0));
  EXPECT_TRUE(job->stream_wait(0, nullptr).has_value());
  const Result<void> beyond = job->stream_wait(1, nullptr);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(sums_of(*job), std::vector<std::uint64_t>(4, 0));
  EXPECT_TRUE(scene.matches()) << "nothing was asked for";
}

}  // namespace
}  // namespace orlop::gpu::conformance
