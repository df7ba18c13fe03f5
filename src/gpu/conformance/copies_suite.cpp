// SPDX-License-Identifier: Apache-2.0
// Right bytes, right sums, nothing else touched.
#include <gtest/gtest.h>

#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

constexpr std::uint64_t kSeeds = 60;

TEST_P(CopierConformance, Restore_of_any_layout_writes_its_pages_and_nothing_else) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Scene scene = Scene::random(small_stage(), rng, small_limits());
    scene.fill(rng);
    const auto job = run(scene.request(CopyDirection::kRestore));
    ASSERT_NE(job, nullptr);
    ASSERT_EQ(sums_of(*job), scene.expected_sums());
    scene.expect(CopyDirection::kRestore);
    ASSERT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, Backup_of_any_layout_writes_its_values_and_nothing_else) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(1000 + seed);
    Scene scene = Scene::random(small_stage(), rng, small_limits());
    scene.fill(rng);
    const auto job = run(scene.request(CopyDirection::kBackup));
    ASSERT_NE(job, nullptr);
    scene.expect(CopyDirection::kBackup);
    ASSERT_EQ(sums_of(*job), scene.expected_sums());
    ASSERT_TRUE(scene.matches());
  }
}

// What engines have today: everything a multiple of 16, so that the wide loops run.
TEST_P(CopierConformance, Copies_of_even_layouts_in_both_directions_are_exact) {
  RandomLayoutLimits limits = small_limits();
  limits.ragged = false;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(2000 + seed);
    Scene scene = Scene::random(small_stage(), rng, limits);
    scene.fill(rng);
    for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
      const auto job = run(scene.request(direction));
      ASSERT_NE(job, nullptr);
      scene.expect(direction);
      ASSERT_EQ(sums_of(*job), scene.expected_sums());
      ASSERT_TRUE(scene.matches());
    }
  }
}

// 36 layers of K and V, 4 KiB pieces, tensors of their own: the layout of the bars. More bytes than
// any threshold that changes the way of copying for small batches.
KvLayout layout_of_pieces(std::uint64_t first_address, std::uint64_t piece_bytes,
                          std::uint64_t pages) {
  KvLayout layout;
  for (std::uint32_t i = 0; i < 72; ++i) {
    layout.parts.push_back({.name = "layers." + std::to_string(i / 2) + (i % 2 == 0 ? ".k" : ".v"),
                            .layer = i / 2,
                            .base = first_address + i * piece_bytes * pages,
                            .pages = pages,
                            .page_stride = piece_bytes,
                            .row_bytes = piece_bytes});
  }
  return layout;
}

TEST_P(CopierConformance, Many_values_are_copied_as_few) {
  for (const Placement placement : {Placement::kAdjacent, Placement::kScattered}) {
    Rng rng(placement == Placement::kAdjacent ? 7 : 8);
    Scene scene(stage(), rng, layout_of_pieces(cache_->address(), 4096, 56), 50, placement);
    ASSERT_EQ(scene.value_count(), 50U);
    scene.fill(rng);
    for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
      const auto job = run(scene.request(direction));
      ASSERT_NE(job, nullptr);
      scene.expect(direction);
      EXPECT_EQ(sums_of(*job), scene.expected_sums());
      EXPECT_TRUE(scene.matches());
    }
  }
}

// Rows of whole chunks of the checksum, in several heads, tokens and pages a value, of two pools:
// short batches of such go a way of their own on a GPU.
KvLayout layout_of_chunks(Rng& rng, std::uint64_t first_address) {
  constexpr std::uint64_t kChunk = 4096, kPages = 6;
  KvLayout layout;
  layout.order = rng.chance(0.5) ? ValueOrder::kHeadTokenChannel : ValueOrder::kTokenHeadChannel;
  layout.pools = {{"a", static_cast<std::uint32_t>(rng.between(1, 3))},
                  {"b", static_cast<std::uint32_t>(rng.between(1, 2))}};
  const auto gap = [&] { return rng.chance(0.5) ? 16 * rng.between(1, 9) : 0; };
  std::uint64_t at = first_address;
  for (std::uint32_t i = 0; i < 3; ++i) {
    KvPart part{.name = "part " + std::to_string(i),
                .layer = i,
                .pool = i == 1 ? 1u : 0u,
                .base = at,
                .pages = kPages};
    part.heads = static_cast<std::uint32_t>(rng.between(1, 3));
    part.tokens = static_cast<std::uint32_t>(rng.between(1, 2));
    part.row_bytes = kChunk * rng.between(1, 2);
    part.token_stride = part.row_bytes + gap();
    part.head_stride = part.tokens * part.token_stride + gap();
    part.page_stride = part.heads * part.head_stride + gap();
    at += kPages * part.page_stride;
    layout.parts.push_back(std::move(part));
  }
  return layout;
}

TEST_P(CopierConformance, Short_batches_of_whole_chunks_are_exact) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(4000 + seed);
    KvLayout layout = layout_of_chunks(rng, small_stage().cache.address());
    const std::size_t values = rng.between(1, 4);
    Scene scene(small_stage(), rng, std::move(layout), values, Placement::kScattered);
    scene.fill(rng);
    for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
      const auto job = run(scene.request(direction));
      ASSERT_NE(job, nullptr);
      scene.expect(direction);
      ASSERT_EQ(sums_of(*job), scene.expected_sums());
      ASSERT_TRUE(scene.matches());
    }
  }
}

// Each tells its end in another way; no job may be seen done by the end of its neighbour.
TEST_P(CopierConformance, Short_and_long_batches_in_turn_end_in_their_order) {
  Rng rng(4100);
  Scene brief(stage().half(false), rng,
              layout_of_pieces(stage().half(false).cache.address(), 4096, 4), 1,
              Placement::kScattered);
  Stage other = stage().half(true);
  Scene longer(other, rng, layout_of_pieces(other.cache.address() + other.cache_offset, 4096, 20),
               20, Placement::kScattered);
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    brief.fill(rng);
    longer.fill(rng);
    std::vector<std::shared_ptr<CopyJob>> jobs;
    for (int i = 0; i < 24; ++i) {
      auto job = copier_->submit((i % 3 == 1 ? longer : brief).request(direction));
      ASSERT_TRUE(job.has_value());
      jobs.push_back(*std::move(job));
    }
    brief.expect(direction);
    longer.expect(direction);
    for (std::size_t i = jobs.size(); i-- > 0;) {
      ASSERT_TRUE(jobs[i]->wait(kPatience));
      for (std::size_t before = 0; before < i; ++before) ASSERT_TRUE(jobs[before]->done());
      ASSERT_TRUE(jobs[i]->result().has_value());
      ASSERT_EQ(sums_of(*jobs[i]), (i % 3 == 1 ? longer : brief).expected_sums());
    }
    ASSERT_TRUE(brief.matches());
    ASSERT_TRUE(longer.matches());
  }
}

TEST_P(CopierConformance, Values_of_the_same_pages_are_equal) {
  Rng rng(9);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  // Backups may name a page twice: every value takes the pages of the first.
  std::vector<std::vector<std::int64_t>> lists(scene.layout().pools.size());
  for (std::size_t pool = 0; pool < lists.size(); ++pool) {
    for (std::size_t i = 0; i < scene.value_count(); ++i) {
      const std::vector<std::int64_t>& numbers = scene.pages(0)[pool];
      lists[pool].insert(lists[pool].end(), numbers.begin(), numbers.end());
    }
  }
  const std::vector<std::span<const std::int64_t>> spans(lists.begin(), lists.end());
  CopyRequest request = scene.request(CopyDirection::kBackup);
  request.pages = spans;
  const auto job = run(request);
  ASSERT_NE(job, nullptr);
  for (std::size_t i = 1; i < scene.value_count(); ++i) {
    EXPECT_EQ(job->raw_sums()[i], job->raw_sums()[0]);
    EXPECT_TRUE(std::ranges::equal(scene.value(i), scene.value(0)));
  }
}

TEST_P(CopierConformance, Both_directions_side_by_side_do_not_mix) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(3000 + seed);
    RandomLayoutLimits limits = small_limits();
    limits.cache_bytes = (1 << 20) - 64;
    Scene out = Scene::random(small_stage().half(false), rng, limits);
    Scene in = Scene::random(small_stage().half(true), rng, limits);
    out.fill(rng);
    in.fill(rng);
    std::vector<std::shared_ptr<CopyJob>> jobs;
    for (int i = 0; i < 3; ++i) {
      auto backup = copier_->submit(out.request(CopyDirection::kBackup));
      auto restore = copier_->submit(in.request(CopyDirection::kRestore));
      ASSERT_TRUE(backup.has_value());
      ASSERT_TRUE(restore.has_value());
      jobs.push_back(*std::move(backup));
      jobs.push_back(*std::move(restore));
    }
    out.expect(CopyDirection::kBackup);
    in.expect(CopyDirection::kRestore);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_TRUE(jobs[i]->wait(kPatience));
      ASSERT_TRUE(jobs[i]->result().has_value());
      ASSERT_EQ(sums_of(*jobs[i]), (i % 2 == 0 ? out : in).expected_sums());
    }
    ASSERT_TRUE(out.matches());
    ASSERT_TRUE(in.matches());
  }
}

}  // namespace
}  // namespace orlop::gpu::conformance
