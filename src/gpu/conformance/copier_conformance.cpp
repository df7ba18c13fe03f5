// SPDX-License-Identifier: Apache-2.0
#include "gpu/conformance/copier_conformance.h"

namespace orlop::gpu::conformance {

void CopierConformance::SetUp() {
  engine_ = GetParam().make();
  ASSERT_NE(engine_, nullptr);
  cache_ = engine_->cache_memory(kCacheBytes);
  values_ = engine_->value_memory(kValueBytes);
  ASSERT_NE(cache_, nullptr);
  ASSERT_NE(values_, nullptr);
  copier_ = engine_->make_copier();
  ASSERT_NE(copier_, nullptr);
  ASSERT_EQ(copier_->kind(), engine_->kind());
}

std::shared_ptr<CopyJob> CopierConformance::run(const CopyRequest& request) {
  auto job = copier_->submit(request);
  if (!job) {
    ADD_FAILURE() << job.error().message;
    return nullptr;
  }
  if (!(*job)->wait(kPatience)) {
    ADD_FAILURE() << "the job does not end";
    return nullptr;
  }
  if (const Result<void> result = (*job)->result(); !result) {
    ADD_FAILURE() << result.error().message;
    return nullptr;
  }
  return *job;
}

std::string engine_name(const testing::TestParamInfo<EngineFactory>& info) {
  return info.param.name;
}

std::vector<std::uint64_t> sums_of(const CopyJob& job) {
  const std::span<const std::uint64_t> sums = job.raw_sums();
  return {sums.begin(), sums.end()};
}

}  // namespace orlop::gpu::conformance
