// SPDX-License-Identifier: Apache-2.0
// Jobs: their order, callbacks, threads, ends, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Counts calls of OnCopyDone and lets a test wait for them.
class Callbacks {
 public:
  OnCopyDone counting() {
    return [this](CopyJob& job) {
      const std::lock_guard lock(mutex_);
      all_done_ = all_done_ && job.done();
      ++count_;
      changed_.notify_all();
    };
  }
  bool wait_for(int count, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return count_ >= count; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  bool all_done() {
    const std::lock_guard lock(mutex_);
    return all_done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  bool all_done_ = true;
};

TEST_P(CopierConformance, Jobs_of_one_direction_run_in_their_order) {
  Rng rng(20);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  // The same pages from the values in a new order each time: the last job wins.
  std::vector<std::byte*> values;
  for (std::size_t i = 0; i < scene.value_count(); ++i) values.push_back(scene.value(i).data());
  std::vector<std::uint64_t> sums = scene.expected_sums();
  std::vector<std::vector<std::uint64_t>> expected_sums;
  std::vector<std::shared_ptr<CopyJob>> jobs;
  for (int i = 0; i < 10; ++i) {
    std::ranges::rotate(values, values.begin() + 1);
    std::ranges::rotate(sums, sums.begin() + 1);
    expected_sums.push_back(i < 9 ? sums : scene.expected_sums());
    CopyRequest request = scene.request(CopyDirection::kRestore);
    if (i < 9) request.values = values;
    auto job = copier_->submit(request);
    ASSERT_TRUE(job.has_value());
    jobs.push_back(*std::move(job));
  }
  ASSERT_TRUE(jobs.back()->wait(kPatience));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_TRUE(jobs[i]->done());
    EXPECT_EQ(sums_of(*jobs[i]), expected_sums[i]) << "job " << i << " was overtaken";
  }
  scene.expect(CopyDirection::kRestore);
  EXPECT_TRUE(scene.matches());
}

TEST_P(CopierConformance, Job_without_values_ends_at_once) {
  Rng rng(21);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  const std::vector<std::span<const std::int64_t>> none(scene.layout().pools.size());
  for (const CopyDirection direction : {CopyDirection::kBackup, CopyDirection::kRestore}) {
    const auto job =
        run({.direction = direction, .layout = &scene.compiled(), .values = {}, .pages = none});
    ASSERT_NE(job, nullptr);
    EXPECT_TRUE(job->raw_sums().empty());
    EXPECT_EQ(job->ranges(), 1U);
    EXPECT_TRUE(job->range_done(0));
  }
  EXPECT_TRUE(scene.matches());
}

TEST_P(CopierConformance, Callback_comes_once_for_every_job) {
  Rng rng(22);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  Callbacks callbacks;
  std::vector<std::shared_ptr<CopyJob>> jobs;
  for (int i = 0; i < 20; ++i) {
    auto job = copier_->submit(
        scene.request(i % 2 == 0 ? CopyDirection::kBackup : CopyDirection::kRestore),
        callbacks.counting());
    ASSERT_TRUE(job.has_value());
    if (i % 5 == 4) (*job)->cancel();
    jobs.push_back(*std::move(job));
  }
  ASSERT_TRUE(callbacks.wait_for(20, kPatience));
  for (const auto& job : jobs) EXPECT_TRUE(job->done());
  EXPECT_TRUE(callbacks.all_done());
  copier_.reset();
  EXPECT_EQ(callbacks.count(), 20);
}

TEST_P(CopierConformance, Callback_may_submit_the_next_job) {
  Rng rng(23);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  Callbacks callbacks;
  std::atomic<bool> accepted{true};
  auto first = copier_->submit(scene.request(CopyDirection::kRestore), [&](CopyJob& job) {
    accepted =
        copier_->submit(scene.request(CopyDirection::kBackup), callbacks.counting()).has_value();
    callbacks.counting()(job);
  });
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(callbacks.wait_for(2, kPatience));
  EXPECT_TRUE(accepted);
}

TEST_P(CopierConformance, Callback_that_submits_at_the_end_of_its_copier_is_refused) {
  Rng rng(28);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  const std::vector<std::span<const std::int64_t>> none(scene.layout().pools.size());
  const CopyRequest nothing{.layout = &scene.compiled(), .pages = none};
  PageCopier& copier = *copier_;
  std::optional<ErrorCode> refused;
  auto job = copier.submit(scene.request(CopyDirection::kRestore), [&](CopyJob&) {
    while (!refused) {
      const auto next = copier.submit(nothing);
      if (!next) refused = next.error().code;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  ASSERT_TRUE(job.has_value());
  copier_.reset();
  EXPECT_EQ(refused, ErrorCode::kClosed);
  EXPECT_TRUE((*job)->result().has_value());
}

TEST_P(CopierConformance, Threads_share_a_copier) {
  constexpr int kThreads = 4;
  std::vector<Scene> scenes;
  Rng rng(24);
  RandomLayoutLimits limits = small_limits();
  limits.cache_bytes = (1 << 19) - 64;
  for (int i = 0; i < kThreads; ++i) {
    const Stage quarter = small_stage().half(i % 2 != 0).half(i / 2 != 0);
    scenes.push_back(Scene::random(quarter, rng, limits));
    scenes.back().fill(rng);
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (Scene& scene : scenes) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 10; ++turn) {
        const CopyDirection direction =
            turn % 2 == 0 ? CopyDirection::kRestore : CopyDirection::kBackup;
        auto job = copier_->submit(scene.request(direction));
        if (!job || !(*job)->wait(kPatience) || !(*job)->result()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (Scene& scene : scenes) {
    scene.expect(CopyDirection::kRestore);
    EXPECT_TRUE(scene.matches());
  }
}

TEST_P(CopierConformance, End_of_a_copier_waits_for_its_jobs) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Rng rng(7000 + seed);
    Scene scene = Scene::random(small_stage(), rng, small_limits());
    scene.fill(rng);
    std::vector<std::shared_ptr<CopyJob>> jobs;
    for (int i = 0; i < 5; ++i) {
      auto job = copier_->submit(scene.request(CopyDirection::kRestore));
      ASSERT_TRUE(job.has_value());
      jobs.push_back(*std::move(job));
    }
    copier_.reset();
    for (const auto& job : jobs) {
      EXPECT_TRUE(job->done());
      EXPECT_TRUE(job->result().has_value());  // a job outlives its copier
      EXPECT_EQ(sums_of(*job), scene.expected_sums());
    }
    scene.expect(CopyDirection::kRestore);
    EXPECT_TRUE(scene.matches());
    copier_ = engine_->make_copier();
  }
}

TEST_P(CopierConformance, Wait_with_no_time_left_returns) {
  Rng rng(25);
  Scene scene = Scene::random(small_stage(), rng, small_limits());
  scene.fill(rng);
  auto job = copier_->submit(scene.request(CopyDirection::kRestore));
  ASSERT_TRUE(job.has_value());
  const bool over = (*job)->wait(std::chrono::milliseconds(0));
  EXPECT_TRUE(!over || (*job)->done());
  EXPECT_TRUE((*job)->wait(std::chrono::milliseconds::max()));
  EXPECT_TRUE((*job)->done());
}

class Refusals {
 public:
  Refusals(PageCopier& copier, Scene& scene) : copier_(copier), scene_(scene) {}
  std::string message(const CopyRequest& request) {
    const auto job = copier_.submit(request);
    if (job) return "accepted";
    EXPECT_EQ(job.error().code, ErrorCode::kInvalidArgument);
    return job.error().message;
  }
  // The scene's request with one number of one pool changed.
  std::string with_number(std::size_t pool, std::size_t index, std::int64_t number) {
    const CopyRequest request = scene_.request(CopyDirection::kRestore);
    std::vector<std::vector<std::int64_t>> lists;
    for (const auto& list : request.pages) lists.emplace_back(list.begin(), list.end());
    lists[pool][index] = number;
    const std::vector<std::span<const std::int64_t>> spans(lists.begin(), lists.end());
    CopyRequest changed = request;
    changed.pages = spans;
    return message(changed);
  }

 private:
  PageCopier& copier_;
  Scene& scene_;
};

KvLayout two_pools(std::uint64_t first_address) {
  KvLayout layout;
  layout.pools = {{"full", 2}, {"window", 1}};
  for (std::uint32_t i = 0; i < 4; ++i) {
    layout.parts.push_back({.name = "layers." + std::to_string(i),
                            .layer = i,
                            .pool = i % 2,
                            .base = first_address + i * 65'536,
                            .pages = i == 3 ? 12U : 16U,
                            .page_stride = 4'096,
                            .row_bytes = 4'096});
  }
  return layout;
}

TEST_P(CopierConformance, Wrong_requests_are_refused_by_name_and_write_nothing) {
  Rng rng(26);
  Scene scene(small_stage(), rng, two_pools(cache_->address()), 4, Placement::kScattered);
  scene.fill(rng);
  Refusals refused(*copier_, scene);
  EXPECT_THAT(refused.with_number(0, 5, -1),
              AllOf(HasSubstr("'full'"), HasSubstr("-1 at index 5")));
  EXPECT_THAT(refused.with_number(0, 7, 16),
              AllOf(HasSubstr("'full'"), HasSubstr("16 at index 7")));
  // Number 12 exists in one part of the pool and not in the other.
  EXPECT_THAT(refused.with_number(1, 3, 12), AllOf(HasSubstr("'window'"), HasSubstr("12 pages")));

  const CopyRequest right = scene.request(CopyDirection::kRestore);
  CopyRequest request = right;
  request.pages = right.pages.first(1);
  EXPECT_THAT(refused.message(request), HasSubstr("2 pools"));
  const std::vector<std::span<const std::int64_t>> short_list{right.pages[0].first(7),
                                                              right.pages[1]};
  request.pages = short_list;
  EXPECT_THAT(refused.message(request), AllOf(HasSubstr("'full'"), HasSubstr("7 numbers")));

  request = right;
  std::vector<std::byte*> values(right.values.begin(), right.values.end());
  values[2] = nullptr;
  request.values = values;
  EXPECT_THAT(refused.message(request), HasSubstr("value 2"));
  request = right;
  request.layout = nullptr;
  EXPECT_THAT(refused.message(request), HasSubstr("layout"));

  const auto with_ranges = [&](std::vector<LayerRange> ranges) {
    return refused.message(scene.request(CopyDirection::kRestore, ranges));
  };
  EXPECT_THAT(with_ranges({{0, 2}, {1, 4}}), HasSubstr("overlap"));
  EXPECT_THAT(with_ranges({{2, 2}}), HasSubstr("[2, 2)"));
  EXPECT_THAT(with_ranges({{0, 5}}), HasSubstr("[0, 5) of 4"));
  const std::vector<LayerRange> all{{0, 4}};
  EXPECT_THAT(refused.message(scene.request(CopyDirection::kBackup, all)), HasSubstr("restores"));
  EXPECT_TRUE(scene.matches());
}

// A term of the checksum cannot be cut in two.
TEST_P(CopierConformance, Ranges_that_cut_between_multiples_of_eight_are_refused) {
  KvLayout layout;
  for (std::uint32_t i = 0; i < 2; ++i) {
    layout.parts.push_back({.name = "layers." + std::to_string(i),
                            .layer = i,
                            .base = cache_->address() + i * 4'096,
                            .pages = 8,
                            .page_stride = 100,
                            .row_bytes = 100});
  }
  Rng rng(27);
  Scene scene(small_stage(), rng, layout, 4, Placement::kAdjacent);
  scene.fill(rng);
  Refusals refused(*copier_, scene);
  const std::vector<LayerRange> both{{0, 1}, {1, 2}};
  EXPECT_THAT(refused.message(scene.request(CopyDirection::kRestore, both)),
              HasSubstr("multiple of 8"));
  const std::vector<LayerRange> whole{{0, 2}};
  const auto job = run(scene.request(CopyDirection::kRestore, whole));
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(sums_of(*job), scene.expected_sums());
  scene.expect(CopyDirection::kRestore);
  EXPECT_TRUE(scene.matches());
}

}  // namespace
}  // namespace orlop::gpu::conformance
