// SPDX-License-Identifier: Apache-2.0
// The engines that one layout can be served by, behind one object: where PageCache (room client)
// and the CUDA engines meet. The client room knows no CUDA; what is built in plugs itself in here.
//
// Place of a layout: the host when its addresses are CPU memory, there is no CUDA or `host` was
// asked for; else the device that owns the addresses. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"
#include "orlop/error.h"

namespace orlop::gpu {

// As a slot's: shorter slices would cost more than they copy.
inline constexpr std::uint64_t kLeastBackupBurst = 64 * 1024;

struct EngineWish {
  std::optional<EngineKind> kind{};         // none: by the machine's table of measurements
  int device = -1;                          // -1: where the layout's memory is
  std::uint64_t staging_bytes = 192 << 20;  // GPU memory a direction, for staged
  std::uint64_t backup_burst_bytes = 0;     // of a GPU: PageCacheOptions
};

class PageEngines {
 public:
  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)>;

  virtual ~PageEngines() = default;
  PageEngines() = default;
  PageEngines(const PageEngines&) = delete;
  PageEngines& operator=(const PageEngines&) = delete;

  // Makes `memory` (the mapped value area) usable by the copiers until the last owner of what is
  // returned is gone; nothing to be done on the host (null). Asking again for the same mapping
  // costs nothing. Errors: as HostRegistration::register_memory.
  virtual Result<std::shared_ptr<const void>> use_memory(std::span<std::byte> memory,
                                                         const Progress& progress) = 0;
  // The engine that a batch of so many values, adjacent in memory, would go to now.
  virtual EngineKind engine_for(CopyDirection direction, std::size_t values) const = 0;
  // Lives as long as this object; chooses the engine of each job.
  virtual PageCopier& copier() = 0;
  // "host", "NVIDIA H200 (device 0), engine staged": one line, for people.
  virtual std::string describe() const = 0;
};

// Errors: kInvalidArgument (an engine was asked for that is not built in, or that cannot reach the
// layout's memory: names both; a burst below kLeastBackupBurst), kSystem (a CUDA call).
Result<std::unique_ptr<PageEngines>> make_page_engines(const CompiledLayout& layout,
                                                       const EngineWish& wish);

// Defined in cuda_page_engines.cpp when CUDA is built in (ORLOP_WITH_CUDA), and asked first by
// make_page_engines(). Null: no driver, no device, or the layout's memory is not a device's.
Result<std::unique_ptr<PageEngines>> make_cuda_page_engines(const CompiledLayout& layout,
                                                            const EngineWish& wish);

}  // namespace orlop::gpu
