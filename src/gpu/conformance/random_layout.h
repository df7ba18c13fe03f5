// SPDX-License-Identifier: Apache-2.0
// Layouts as engines make them, at random: for each pool one block of memory with the axes layer,
// K/V, page, head, token nested in any order, with or without gaps at every level. That covers
// separate tensors, [2, pages, ...], [pages, 2, ...], packed K and V, blocks across layers, head or
// token first, heads outside of pages, latent (one part a layer) and opaque pages.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "orlop/kv_layout.h"

namespace orlop::gpu::conformance {

struct RandomLayout {
  KvLayout layout{};            // bases count from `first_address`
  std::uint64_t bytes = 0;      // from there to the end of the last part
  std::uint64_t value_len = 0;  // sum of the parts
};

struct RandomLayoutLimits {
  std::uint32_t pages = 40;  // of a pool, at least 4
  std::uint64_t value_bytes = 96 * 1024;
  std::uint64_t cache_bytes = 6 * 1024 * 1024;
  bool ragged = true;  // rows and gaps of any number of bytes, not only multiples of 8
};

// first_address: not 0. The same numbers from rng give the same layout.
RandomLayout random_layout(Rng& rng, std::uint64_t first_address,
                           const RandomLayoutLimits& limits = {});

}  // namespace orlop::gpu::conformance
