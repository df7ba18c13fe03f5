// SPDX-License-Identifier: Apache-2.0
// Cancelled copies: at every point, and what may be relied on afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

constexpr std::uint32_t kLayers = 8;
constexpr std::uint64_t kPages = 48, kRow = 16 * 1024;

KvLayout eight_layers(std::uint64_t first_address) {
  KvLayout layout;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
    layout.parts.push_back({.name = "layers." + std::to_string(layer),
                            .layer = layer,
                            .base = first_address + layer * kPages * kRow,
                            .pages = kPages,
                            .page_stride = kRow,
                            .row_bytes = kRow});
  }
  return layout;
}

std::vector<LayerRange> layer_by_layer() {
  std::vector<LayerRange> ranges;
  for (std::uint32_t layer = 0; layer < kLayers; ++layer) ranges.push_back({layer, layer + 1});
  return ranges;
}

// Every byte is as it was or as the copy makes it.
testing::AssertionResult is_one_of(std::span<const std::byte> is, std::span<const std::byte> before,
                                   std::span<const std::byte> after) {
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (is[i] != before[i] && is[i] != after[i]) {
      return testing::AssertionFailure() << "byte " << i << " is neither old nor new";
    }
  }
  return testing::AssertionSuccess();
}

struct CancelledCopy {
  Bytes before, after;

  void check(CopyJob& job, std::span<const std::byte> is, std::size_t ranges) const {
    const Result<void> result = job.result();
    if (result) {
      EXPECT_TRUE(std::ranges::equal(is, after)) << "success is reported of half a copy";
    } else {
      EXPECT_EQ(result.error().code, ErrorCode::kClosed) << result.error().message;
      EXPECT_TRUE(is_one_of(is, before, after));
    }
    for (std::size_t range = 0; range < ranges; ++range) {
      const Result<void> waited = job.stream_wait(range, nullptr);
      EXPECT_TRUE(waited.has_value() || waited.error().code == ErrorCode::kWrongState);
      EXPECT_TRUE(waited.has_value() || !job.range_done(range)) << range;
      EXPECT_TRUE(job.range_done(range) || !result) << range;
    }
  }
};

// When to cancel: after so many ranges, or after so many looks at the job.
template <class Reached>
void cancel_when(CopyJob& job, Reached reached) {
  while (!reached() && !job.done()) std::this_thread::yield();
  job.cancel();
  job.cancel();
}

TEST_P(CopierConformance, Restore_cancelled_at_any_point_is_done_and_touches_nothing_more) {
  const std::vector<LayerRange> ranges = layer_by_layer();
  for (int point = 0; point < 14; ++point) {
    SCOPED_TRACE(point);
    Rng rng(8000 + static_cast<std::uint64_t>(point));
    Scene scene(stage(), rng, eight_layers(cache_->address()), kPages, Placement::kScattered);
    scene.fill(rng);
    CancelledCopy copy{.before = scene.cache_image(), .after = {}};
    scene.expect(CopyDirection::kRestore);
    copy.after = scene.cache_image();
    auto job = copier_->submit(scene.request(CopyDirection::kRestore, ranges));
    ASSERT_TRUE(job.has_value());
    int looks = 0;
    cancel_when(**job, [&] {
      return point < static_cast<int>(kLayers) ? (*job)->range_done(static_cast<std::size_t>(point))
                                               : ++looks > 40 * (point - 8);
    });
    ASSERT_TRUE((*job)->wait(kPatience));
    Bytes is(kCacheBytes);
    cache_->download(0, is);
    copy.check(**job, is, ranges.size());
    // Done means done: what we now write into the pages stays.
    scene.fill(rng);
    ASSERT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, Backup_cancelled_at_any_point_is_done_and_touches_nothing_more) {
  for (int point = 0; point < 8; ++point) {
    SCOPED_TRACE(point);
    Rng rng(9000 + static_cast<std::uint64_t>(point));
    Scene scene(stage(), rng, eight_layers(cache_->address()), kPages, Placement::kAdjacent);
    scene.fill(rng);
    CancelledCopy copy{.before = scene.value_image(), .after = {}};
    scene.expect(CopyDirection::kBackup);
    copy.after = scene.value_image();
    auto job = copier_->submit(scene.request(CopyDirection::kBackup));
    ASSERT_TRUE(job.has_value());
    int looks = 0;
    cancel_when(**job, [&] { return ++looks > 60 * point; });
    ASSERT_TRUE((*job)->wait(kPatience));
    copy.check(**job, values_->bytes(), 1);
    scene.fill(rng);
    ASSERT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, Cancelled_in_the_queue_others_go_on) {
  Rng rng(30);
  Scene scene(stage(), rng, eight_layers(cache_->address()), kPages, Placement::kScattered);
  scene.fill(rng);
  std::vector<std::shared_ptr<CopyJob>> jobs;
  for (int i = 0; i < 6; ++i) {
    auto job = copier_->submit(scene.request(CopyDirection::kRestore));
    ASSERT_TRUE(job.has_value());
    jobs.push_back(*std::move(job));
  }
  jobs[5]->cancel();
  jobs[2]->cancel();
  scene.expect(CopyDirection::kRestore);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_TRUE(jobs[i]->wait(kPatience));
    if (i == 2 || i == 5) continue;
    EXPECT_TRUE(jobs[i]->result().has_value());
    EXPECT_EQ(sums_of(*jobs[i]), scene.expected_sums());
  }
  EXPECT_TRUE(scene.matches());
  jobs[0]->cancel();  // too late
  EXPECT_TRUE(jobs[0]->result().has_value());
  // The copier is as new.
  scene.fill(rng);
  ASSERT_NE(run(scene.request(CopyDirection::kRestore)), nullptr);
  scene.expect(CopyDirection::kRestore);
  EXPECT_TRUE(scene.matches());
}

}  // namespace
}  // namespace orlop::gpu::conformance
