// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: moves a strip of one value between value memory and pages in CPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "copy/copy.h"
#include "gpu/compiled_layout.h"
#include "gpu/page_copier.h"

namespace orlop::gpu {

struct HostMove {
  const CompiledLayout& layout;
  CopyDirection direction = CopyDirection::kBackup;
  const CopyEngine& engine;
  // With non-temporal stores; engine.end_rows() is then due.
  bool around_cache = false;
};

// Returns S of the bytes moved; each is loaded once. strip: of whole parts, its ends multiples of 8
// or the ends of the value. numbers: of the value's pages, one list a pool.
std::uint64_t move_strip(const HostMove& move, CompiledLayout::Strip strip, std::byte* value,
                         std::span<const std::int64_t* const> numbers);

}  // namespace orlop::gpu
