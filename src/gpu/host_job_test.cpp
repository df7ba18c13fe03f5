// SPDX-License-Identifier: Apache-2.0
// A job of which another thread takes parts; that bytes and sums are right is the conformance
// suite's.
#include "gpu/host_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "copy/copy.h"
#include "gpu/copy_request.h"

namespace orlop::gpu {
namespace {

constexpr std::uint64_t kRow = 64;
constexpr std::size_t kValues = 3;
constexpr std::uint32_t kLayers = 2;

class HostJobs : public testing::Test {
 protected:
  HostJobs() {
    KvLayout layout;
    for (std::uint32_t i = 0; i < kLayers; ++i) {
      layout.parts.push_back({.name = "part",
                              .layer = i,
                              .base = reinterpret_cast<std::uint64_t>(cache_) + i * kValues * kRow,
                              .pages = kValues,
                              .page_stride = kRow,
                              .row_bytes = kRow});
    }
    compiled_ = CompiledLayout::compile(layout, kLayers * kRow);
    for (std::size_t i = 0; i < sizeof(values_); ++i) values_[i] = std::byte(i * 7);
  }

  std::unique_ptr<HostJob> restore(std::span<const LayerRange> ranges = {}, OnCopyDone done = {}) {
    for (std::size_t i = 0; i < kValues; ++i) {
      addresses_[i] = values_ + i * kLayers * kRow;
      numbers_[i] = static_cast<std::int64_t>(i);
    }
    const std::span<const std::int64_t> pages[] = {numbers_};
    const CopyRequest request{.direction = CopyDirection::kRestore,
                              .layout = &*compiled_,
                              .values = addresses_,
                              .pages = pages,
                              .ranges = ranges};
    auto strips = check_request(request);
    EXPECT_TRUE(strips) << strips.error().message;
    return std::make_unique<HostJob>(request, *std::move(strips), std::move(done));
  }

  bool is_restored() const {
    for (std::size_t i = 0; i < kValues; ++i) {
      for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
        if (std::memcmp(cache_ + (layer * kValues + i) * kRow,
                        values_ + (i * kLayers + layer) * kRow, kRow) != 0) {
          return false;
        }
      }
    }
    return true;
  }

  alignas(64) std::byte cache_[kLayers * kValues * kRow] = {};
  alignas(64) std::byte values_[kLayers * kValues * kRow] = {};
  std::byte* addresses_[kValues] = {};
  std::int64_t numbers_[kValues] = {};
  Result<CompiledLayout> compiled_ = fail(ErrorCode::kWrongState, "not compiled");
};

TEST_F(HostJobs, A_helper_may_take_all_of_it) {
  const auto job = restore();
  job->help();
  EXPECT_TRUE(is_restored());
  EXPECT_TRUE(job->range_done(0));
  EXPECT_FALSE(job->done());  // run() says so
  job->run();
  ASSERT_TRUE(job->done());
  EXPECT_TRUE(job->result());
  for (std::size_t i = 0; i < kValues; ++i) {
    EXPECT_EQ(job->raw_sums()[i],
              process_copy_engine().raw_sum({addresses_[i], kLayers * kRow}, 0));
  }
}

TEST_F(HostJobs, A_helper_that_comes_too_late_does_nothing) {
  const auto job = restore();
  job->run();
  std::ranges::fill(cache_, std::byte{1});
  job->help();
  EXPECT_TRUE(std::ranges::all_of(cache_, [](std::byte b) { return b == std::byte{1}; }));
}

TEST_F(HostJobs, Each_sum_has_all_ranges_whoever_took_them) {
  const LayerRange ranges[] = {{1, 2}, {0, 1}};
  const auto job = restore(ranges);
  std::thread helper([&] { job->help(); });
  job->run();
  helper.join();
  ASSERT_TRUE(job->result());
  EXPECT_TRUE(job->range_done(0) && job->range_done(1));
  EXPECT_TRUE(is_restored());
  for (std::size_t i = 0; i < kValues; ++i) {
    EXPECT_EQ(job->raw_sums()[i],
              process_copy_engine().raw_sum({addresses_[i], kLayers * kRow}, 0));
  }
}

TEST_F(HostJobs, A_cancelled_one_is_taken_no_further_and_ends_once) {
  int ends = 0;
  const auto job = restore({}, [&](CopyJob&) { ++ends; });
  job->cancel();
  job->help();
  job->run();
  EXPECT_EQ(ends, 1);
  ASSERT_FALSE(job->result());
  EXPECT_EQ(job->result().error().code, ErrorCode::kClosed);
  EXPECT_TRUE(std::ranges::all_of(cache_, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(HostJobs, One_that_is_cancelled_after_its_last_part_has_succeeded) {
  const auto job = restore();
  job->help();
  job->cancel();
  job->run();
  EXPECT_TRUE(job->result());
}

}  // namespace
}  // namespace orlop::gpu
