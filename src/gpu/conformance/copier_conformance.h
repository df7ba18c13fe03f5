// SPDX-License-Identifier: Apache-2.0
// The suite that every engine passes (page_copier.h): see engine_under_test.h for how an engine
// joins.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gpu/conformance/engine_under_test.h"
#include "gpu/conformance/scene.h"

namespace orlop::gpu::conformance {

class CopierConformance : public testing::TestWithParam<EngineFactory> {
 protected:
  static constexpr std::size_t kCacheBytes = std::size_t{16} << 20;
  static constexpr std::size_t kValueBytes = std::size_t{16} << 20;
  // Nothing here takes longer; a job that hangs fails its test instead of the whole run.
  static constexpr std::chrono::milliseconds kPatience = std::chrono::seconds(60);

  void SetUp() override;

  Stage stage() { return {*cache_, 0, kCacheBytes, *values_, 0, kValueBytes}; }
  // A small stretch: comparing all of it after every copy is cheap.
  Stage small_stage() {
    return {*cache_, 0, std::size_t{2} << 20, *values_, 0, std::size_t{2} << 20};
  }
  static RandomLayoutLimits small_limits() {
    return {.pages = 40, .value_bytes = 96 * 1024, .cache_bytes = (2 << 20) - 64};
  }
  // Submits and waits; the job has succeeded or the test has failed.
  std::shared_ptr<CopyJob> run(const CopyRequest& request);

  std::unique_ptr<EngineUnderTest> engine_;
  std::unique_ptr<CacheMemory> cache_;
  std::unique_ptr<ValueMemory> values_;
  std::unique_ptr<PageCopier> copier_;  // ends before the memory
};

std::string engine_name(const testing::TestParamInfo<EngineFactory>& info);

std::vector<std::uint64_t> sums_of(const CopyJob& job);

}  // namespace orlop::gpu::conformance
