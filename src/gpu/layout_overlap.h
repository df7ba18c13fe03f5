// SPDX-License-Identifier: Apache-2.0
// Internal to room gpu: do parts of a layout share a byte?
//
// Exact among parts of one page stride: all rows of a page are laid out as rectangles (residue of
// the address modulo the stride) x (quotient, over the pages), and rectangles are searched for a
// crossing. Among parts of different strides only the whole extents are compared. Never says
// "apart" of parts that share a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "orlop/kv_layout.h"

namespace orlop::gpu {

struct PartOverlap {
  std::size_t first = 0, second = 0;  // indexes of the parts; equal: a part overlaps itself
  bool certain = true;                // false: they may interleave without sharing a byte
};

// Requires: every part has pages, heads, tokens and row_bytes of at least 1, and its extent ends at
// or below 2^63. most_rows: of one page of all parts; beyond it the rows of a page count as one
// block (not certain).
std::optional<PartOverlap> find_overlap(std::span<const KvPart> parts, std::uint64_t most_rows);

}  // namespace orlop::gpu
