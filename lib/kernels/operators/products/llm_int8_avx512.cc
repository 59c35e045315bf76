// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/llm_int8_avx512.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "lib/kernels/simd/avx512_lines.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86
namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kVector = 64;
constexpr int64_t kAhead = 4096;  // bytes: a page ahead of the loads, for the hardware does not look beyond one
constexpr int64_t kFloats = 16;   // in a vector
constexpr float kLargest = 127;

// 16 elements from x[i] on as fp32, zeros behind the k-th.
ROOFBENCH_TARGET_AVX512 inline __m512 Load(const Bf16* x, int64_t i, int64_t k) {
  if (k - i >= kFloats) return Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)));
  return Widen(_mm512_castsi512_si256(LoadFirst(x + i, k - i)));
}

// Which magnitudes stay below `threshold` (0: all).
ROOFBENCH_TARGET_AVX512 inline __mmask16 Below(__m512 magnitude, float threshold) {
  if (threshold > 0) return _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(threshold), _CMP_LT_OQ);
  return _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(std::numeric_limits<float>::infinity()), _CMP_LE_OQ);
}

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

ROOFBENCH_TARGET_AVX512 float LargestOf(const Bf16* x, int64_t k, float threshold) {
  __m512 largest = _mm512_setzero_ps();
  for (int64_t i = 0; i < k; i += kFloats) {
    const __m512 magnitude = _mm512_abs_ps(Load(x, i, k));
    largest = _mm512_mask_max_ps(largest, Below(magnitude, threshold), largest, magnitude);
  }
  return _mm512_reduce_max_ps(largest);
}

ROOFBENCH_TARGET_AVX512 int64_t ColumnsOf(const Bf16* x, int64_t m, int64_t k, float threshold, int32_t* columns) {
  int64_t count = 0;
  for (int64_t i = 0; i < k; i += kFloats) {
    uint32_t found = 0;
    for (int64_t row = 0; row < m; ++row) {
      const __m512 magnitude = _mm512_abs_ps(Load(x + row * k, i, k));
      found |= _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(threshold), _CMP_GE_OQ);
    }
    for (; found != 0; found &= found - 1) columns[count++] = static_cast<int32_t>(i + std::countr_zero(found));
  }
  return count;
}

ROOFBENCH_TARGET_AVX512 int32_t Quantise(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to) {
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < k; i += kFloats) {
    const __m512 value = Load(x, i, k);
    const __mmask16 below = Below(_mm512_abs_ps(value), threshold);
    // NaNs, of infinite numbers in a row of them, come to the lower edge: max returns its second operand.
    const __m512 scaled = _mm512_max_ps(_mm512_mul_ps(value, _mm512_set1_ps(inverse)), _mm512_set1_ps(-kLargest));
    // Rounds to even, as the mode of the processor is.
    const __m512i whole = _mm512_maskz_cvtps_epi32(below, _mm512_min_ps(scaled, _mm512_set1_ps(kLargest)));
    sum = _mm512_add_epi32(sum, whole);
    const int64_t count = std::min(kFloats, k - i);
    _mm512_mask_cvtsepi32_storeu_epi8(to + i, static_cast<__mmask16>((1U << count) - 1), whole);
  }
  return _mm512_reduce_add_epi32(sum);
}

}  // namespace roofbench::kernels::avx512
#endif
