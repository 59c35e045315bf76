#include "lib/kernels/llm_int8_avx512.h"

#include "lib/kernels/isa.h"

#if ROOFBENCH_X86
// GCC 12 takes its own "undefined" vectors for uses of uninitialised ones (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kVector = 64;
constexpr int64_t kAhead = 4096;  // bytes: a page ahead of the loads, for the hardware does not look beyond one

}  // namespace

// The instruction multiplies unsigned by signed: w + 128 is unsigned, and 128 · Σ x is what that adds.
ROOFBENCH_TARGET_AVX512_VNNI int32_t Dot(const int8_t* w, const int8_t* x, int64_t k, int32_t sum) {
  const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  int64_t i = 0;
  for (; i + 4 * kVector <= k; i += 4 * kVector) {
    for (int64_t j = 0; j < 4; ++j) {
      const int8_t* const from = w + i + j * kVector;
      _mm_prefetch(reinterpret_cast<const char*>(from + kAhead), _MM_HINT_T0);
      sums[j] = _mm512_dpbusd_epi32(sums[j], _mm512_xor_si512(_mm512_loadu_si512(from), offset),
                                    _mm512_loadu_si512(x + i + j * kVector));
    }
  }
  for (; i < k; i += kVector) {
    const int64_t rest = k - i;
    const __mmask64 there = rest >= kVector ? ~__mmask64{0} : (__mmask64{1} << rest) - 1;
    sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, w + i), offset),
                                  _mm512_maskz_loadu_epi8(there, x + i));
  }
  const __m512i all = _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3]));
  return _mm512_reduce_add_epi32(all) - 128 * sum;
}

}  // namespace roofbench::kernels::avx512
#endif
