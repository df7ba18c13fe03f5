// SPDX-License-Identifier: Apache-2.0
#include "copy/kernels.h"
#include "copy/word_pairs.h"

namespace orlop {
namespace {

template <Store kStore>
std::uint64_t run(std::byte* dst, const std::byte* src, std::size_t bytes,
                  std::uint64_t first_word) {
  std::uint64_t sum = 0;
  std::size_t done = 0;
  while (done < bytes) {
    const std::uint64_t word = first_word + done / 4;
    const std::size_t part = bytes_in_chunk(word, bytes - done);
    sum += sum_pairs_in_chunk<kStore>(at<kStore>(dst, done), src + done, part, word);
    done += part;
  }
  return sum;
}

std::uint64_t sum_only(const std::byte* src, std::size_t bytes, std::uint64_t first_word) {
  return run<Store::kNone>(nullptr, src, bytes, first_word);
}

std::uint64_t copy(std::byte* dst, const std::byte* src, std::size_t bytes) {
  return run<Store::kPlain>(dst, src, bytes, 0);
}

std::uint64_t rows(const RowRun& all) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.count; ++i) {
    sum += run<Store::kPlain>(all.dst + i * all.dst_step, all.src + i * all.src_step, all.row_bytes,
                              all.first_word + i * all.word_step);
  }
  return sum;
}

void no_fence() {}

}  // namespace

// No non-temporal stores here: a machine without AVX2 gains nothing that is worth a second loop,
// and ordinary stores satisfy the contract of `stream` (x86 orders them before a release store).
const CopyKernels kScalarKernels = {sum_only, copy, copy, rows, rows, no_fence};

}  // namespace orlop
