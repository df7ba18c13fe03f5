// SPDX-License-Identifier: Apache-2.0
// Pieces of a value that stand at equal distances on both sides: one row of a paged cache, or the
// same row of many tokens or heads. CopyEngine::move_rows moves them and sums them in one pass.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orlop {

// Row i of `count`: row_bytes from src + i * src_step to dst + i * dst_step; it stands in its value
// at word first_word + i * word_step.
// Requires: first_word and word_step even; row_bytes a multiple of 8 unless count is 1 and the row
// ends its value.
struct RowRun {
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::size_t row_bytes = 0;
  std::size_t count = 1;
  std::size_t dst_step = 0, src_step = 0;  // bytes
  std::uint64_t first_word = 0, word_step = 0;
};

}  // namespace orlop
