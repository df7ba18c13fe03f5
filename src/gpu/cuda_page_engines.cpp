// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpu/cuda_copier.h"
#include "gpu/cuda_device.h"
#include "gpu/engine_choice.h"
#include "gpu/host_registration.h"

namespace orlop::gpu {
namespace {

class CudaEngines final : public PageEngines {
 public:
  CudaEngines(std::unique_ptr<CudaCopier> copier, CompiledLayout layout, int device,
              std::string text)
      : copier_(std::move(copier)),
        layout_(std::move(layout)),
        device_(device),
        text_(std::move(text)) {}

  Result<std::shared_ptr<const void>> use_memory(std::span<std::byte> memory,
                                                 const Progress& progress) override {
    Result<std::shared_ptr<HostRegistration>> registered =
        HostRegistration::register_memory(memory, device_, progress);
    if (!registered) return std::unexpected(std::move(registered.error()));
    return std::shared_ptr<const void>(std::move(*registered));
  }
  EngineKind engine_for(CopyDirection direction, std::size_t values) const override {
    return copier_->engine_for(layout_, direction, values, true);
  }
  PageCopier& copier() override { return *copier_; }
  std::string describe() const override { return text_; }

 private:
  std::unique_ptr<CudaCopier> copier_;
  const CompiledLayout layout_;
  const int device_;
  const std::string text_;
};

}  // namespace

Result<std::unique_ptr<PageEngines>> make_cuda_page_engines(const CompiledLayout& layout,
                                                            const EngineWish& wish) {
  const Result<std::optional<int>> device = device_of(layout);
  if (!device) return std::unexpected(device.error());
  if (!*device) return std::unique_ptr<PageEngines>();
  if (wish.device >= 0 && wish.device != **device) {
    return fail(ErrorCode::kInvalidArgument,
                "engine: the layout's memory is on device " + std::to_string(**device) +
                    ", device " + std::to_string(wish.device) + " was asked for; leave it out");
  }
  std::string note;
  CudaCopierOptions options;
  options.device = **device;
  options.engine = wish.kind;
  options.staging_bytes = wish.staging_bytes;
  options.backup_burst_bytes = wish.backup_burst_bytes;
  options.table = machine_engine_table(**device, &note);
  if (wish.kind) note = "engine " + std::string(to_string(*wish.kind));
  const Result<EngineTableKey> key = device_key(**device);
  if (!key) return std::unexpected(key.error());
  Result<std::unique_ptr<CudaCopier>> copier = make_cuda_copier(options);
  if (!copier) return std::unexpected(std::move(copier.error()));
  return std::unique_ptr<PageEngines>(std::make_unique<CudaEngines>(
      std::move(*copier), layout, **device,
      key->device + " (device " + std::to_string(**device) + "), " + note));
}

}  // namespace orlop::gpu
