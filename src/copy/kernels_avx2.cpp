// SPDX-License-Identifier: Apache-2.0
// AVX2: 32 bytes a register. See kernels.h for the contract, vector_kernel.inc for the loops.
#include "copy/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/planted.h"
#include "copy/word_pairs.h"

#define ORLOP_KERNEL __attribute__((target("avx2,prfchw")))
#define ORLOP_KERNEL_INLINE __attribute__((target("avx2,prfchw"), always_inline)) inline

namespace orlop {
namespace {

struct Vector {
  using Register = __m256i;
  static constexpr std::size_t kBytes = 32;

  ORLOP_KERNEL_INLINE static Register zero() { return _mm256_setzero_si256(); }
  ORLOP_KERNEL_INLINE static Register same(std::uint32_t word) {
    return _mm256_set1_epi32(static_cast<int>(word));
  }
  ORLOP_KERNEL_INLINE static Register load_once(const std::byte* src) {
    Register words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
    // Keeps the compiler from folding a second load of src into the addition.
    asm("" : "+x"(words));
    return words;
  }
  ORLOP_KERNEL_INLINE static void store(std::byte* dst, Register words) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst), words);
  }
  ORLOP_KERNEL_INLINE static void stream(std::byte* dst, Register words) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst), words);
  }
  // Four terms: even words times the odd words above them.
  ORLOP_KERNEL_INLINE static Register add_terms(Register sum, Register words,
                                                const std::uint32_t* keys, Register chunk_key) {
    const Register table = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys));
    const Register keyed = _mm256_add_epi32(_mm256_add_epi32(words, table), chunk_key);
    return _mm256_add_epi64(sum, _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32)));
  }
  ORLOP_KERNEL_INLINE static std::uint64_t total(Register a, Register b, Register c, Register d) {
    alignas(32) std::uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes),
                       _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d)));
    return lanes[0] + lanes[1] + lanes[2] + lanes[3];
  }
};

#include "copy/vector_kernel.inc"

}  // namespace

const CopyKernels kAvx2Kernels = {sum_only, copy, stream, rows, stream_rows, fence};

}  // namespace orlop
#endif
