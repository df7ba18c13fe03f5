// SPDX-License-Identifier: Apache-2.0
// What kv_layout.h says, transcribed without a thought for speed: the address of every byte of a
// value. Compiled layouts and engines are held against it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "orlop/kv_layout.h"

namespace orlop::gpu::conformance {

// Page numbers of one value, one list a pool.
using ValuePages = std::vector<std::vector<std::int64_t>>;

// Address of byte i of the value at [i].
std::vector<std::uint64_t> addresses_of_value(const KvLayout& layout, const ValuePages& pages);

// Bytes of a value before and behind the parts of these layers.
struct ModelStrip {
  std::uint64_t begin = 0, end = 0;
};
ModelStrip strip_of_layers(const KvLayout& layout, LayerRange range);

}  // namespace orlop::gpu::conformance
