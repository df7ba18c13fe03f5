// SPDX-License-Identifier: Apache-2.0
#include "gpu/engine_choice.h"

#include <string>
#include <utility>

namespace orlop::gpu {
namespace {

class HostEngines final : public PageEngines {
 public:
  Result<std::shared_ptr<const void>> use_memory(std::span<std::byte> /*memory*/,
                                                 const Progress& /*progress*/) override {
    return std::shared_ptr<const void>();
  }
  EngineKind engine_for(CopyDirection /*direction*/, std::size_t /*values*/) const override {
    return EngineKind::kHost;
  }
  PageCopier& copier() override { return *copier_; }
  std::string describe() const override { return "host (CPU memory on both sides)"; }

 private:
  std::unique_ptr<PageCopier> copier_ = make_host_copier();
};

}  // namespace

Result<std::unique_ptr<PageEngines>> make_page_engines(const CompiledLayout& layout,
                                                       const EngineWish& wish) {
  // For the host too, which has no bursts: else it would be found out on the first GPU.
  if (wish.backup_burst_bytes != 0 && wish.backup_burst_bytes < kLeastBackupBurst) {
    return fail(ErrorCode::kInvalidArgument,
                "backup_burst_bytes: is " + std::to_string(wish.backup_burst_bytes) +
                    ", must be 0 (no bursts) or at least " + std::to_string(kLeastBackupBurst));
  }
#ifdef ORLOP_WITH_CUDA
  if (wish.kind != EngineKind::kHost) {
    auto device = make_cuda_page_engines(layout, wish);
    if (!device || *device != nullptr) return device;
  }
#else
  static_cast<void>(layout);
#endif
  if (wish.kind.value_or(EngineKind::kHost) != EngineKind::kHost) {
    return fail(ErrorCode::kInvalidArgument,
                "engine: '" + std::string(to_string(*wish.kind)) +
                    "' needs CUDA and memory of a device; leave the choice to Orlop, or ask for "
                    "'host' (`orlop doctor` says what this machine has)");
  }
  return std::unique_ptr<PageEngines>(std::make_unique<HostEngines>());
}

}  // namespace orlop::gpu
