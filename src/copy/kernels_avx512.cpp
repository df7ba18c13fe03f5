// SPDX-License-Identifier: Apache-2.0
// AVX-512 (foundation only): 64 bytes, one cache line, a register. See kernels.h for the contract,
// vector_kernel.inc for the loops.
#include "copy/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/planted.h"
#include "copy/word_pairs.h"

#define ORLOP_KERNEL __attribute__((target("avx512f,prfchw")))
#define ORLOP_KERNEL_INLINE __attribute__((target("avx512f,prfchw"), always_inline)) inline

namespace orlop {
namespace {

struct Vector {
  using Register = __m512i;
  static constexpr std::size_t kBytes = 64;

  ORLOP_KERNEL_INLINE static Register zero() { return _mm512_setzero_si512(); }
  ORLOP_KERNEL_INLINE static Register same(std::uint32_t word) {
    return _mm512_set1_epi32(static_cast<int>(word));
  }
  ORLOP_KERNEL_INLINE static Register load_once(const std::byte* src) {
    Register words = _mm512_loadu_si512(src);
    // Keeps the compiler from folding a second load of src into the addition.
    asm("" : "+v"(words));
    return words;
  }
  ORLOP_KERNEL_INLINE static void store(std::byte* dst, Register words) {
    _mm512_storeu_si512(dst, words);
  }
  ORLOP_KERNEL_INLINE static void stream(std::byte* dst, Register words) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), words);
  }
  // Eight terms: even words times the odd words above them. A shift would compete with the multiply
  // for the one port that has both; the swap of neighbours runs on the other.
  ORLOP_KERNEL_INLINE static Register add_terms(Register sum, Register words,
                                                const std::uint32_t* keys, Register chunk_key) {
    const Register keyed =
        _mm512_add_epi32(_mm512_add_epi32(words, _mm512_loadu_si512(keys)), chunk_key);
    const Register swapped = _mm512_shuffle_epi32(keyed, _MM_PERM_CDAB);
    return _mm512_add_epi64(sum, _mm512_mul_epu32(keyed, swapped));
  }
  ORLOP_KERNEL_INLINE static std::uint64_t total(Register a, Register b, Register c, Register d) {
    alignas(64) std::uint64_t lanes[8];
    _mm512_store_si512(lanes, _mm512_add_epi64(_mm512_add_epi64(a, b), _mm512_add_epi64(c, d)));
    std::uint64_t sum = 0;
    for (std::uint64_t lane : lanes) sum += lane;
    return sum;
  }
};

#include "copy/vector_kernel.inc"

}  // namespace

const CopyKernels kAvx512Kernels = {sum_only, copy, stream, rows, stream_rows, fence};

}  // namespace orlop
#endif
