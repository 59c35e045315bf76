// SPDX-License-Identifier: Apache-2.0
// LLM.int8() with AVX-512 and its 8-bit dot products. The instruction multiplies unsigned by signed: w + 128 is
// unsigned, and 128 · Σ x is what that adds.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

#include "lib/kernels/operators/products/llm_int8_variant.h"
#include "lib/kernels/simd/avx512_dots.h"
#include "lib/kernels/simd/avx512_lines.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86
namespace roofbench::kernels {
namespace {

constexpr int64_t kVector = 64;
constexpr int64_t kFloats = 16;  // in a vector
// How far ahead of its products a row comes into the second cache.
constexpr int64_t kAhead = 2048;

// 16 elements from x[i] on as fp32, zeros behind the k-th.
ROOFBENCH_TARGET_AVX512 inline __m512 Load(const Bf16* x, int64_t i, int64_t k) {
  if (k - i >= kFloats) return avx512::Widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)));
  return avx512::Widen(_mm512_castsi512_si256(avx512::LoadFirst(x + i, k - i)));
}

// Which magnitudes stay below `threshold` (0: all).
ROOFBENCH_TARGET_AVX512 inline __mmask16 Below(__m512 magnitude, float threshold) {
  if (threshold > 0) return _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(threshold), _CMP_LT_OQ);
  return _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(std::numeric_limits<float>::infinity()), _CMP_LE_OQ);
}

ROOFBENCH_TARGET_AVX512 float Largest(const Bf16* x, int64_t k, float threshold, uint8_t* is_outlier) {
  __m512 largest = _mm512_setzero_ps();
  for (int64_t i = 0; i < k; i += kFloats) {
    const __m512 magnitude = _mm512_abs_ps(Load(x, i, k));
    largest = _mm512_mask_max_ps(largest, Below(magnitude, threshold), largest, magnitude);
    if (threshold <= 0) continue;
    uint32_t found = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(threshold), _CMP_GE_OQ);
    // Another thread may find the same column in another row.
    for (; found != 0; found &= found - 1) {
      std::atomic_ref(is_outlier[i + std::countr_zero(found)]).store(1, std::memory_order_relaxed);
    }
  }
  return _mm512_reduce_max_ps(largest);
}

ROOFBENCH_TARGET_AVX512 int32_t Quantize(const Bf16* x, int64_t k, float threshold, float inverse, int8_t* to) {
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < k; i += kFloats) {
    const __m512 value = Load(x, i, k);
    const __mmask16 below = Below(_mm512_abs_ps(value), threshold);
    // NaNs, of infinite numbers in a row of them, come to the lower edge: max returns its second operand.
    const __m512 scaled = _mm512_max_ps(_mm512_mul_ps(value, _mm512_set1_ps(inverse)), _mm512_set1_ps(-kInt8Largest));
    // Rounds to even, as the mode of the processor is.
    const __m512i whole = _mm512_maskz_cvtps_epi32(below, _mm512_min_ps(scaled, _mm512_set1_ps(kInt8Largest)));
    sum = _mm512_add_epi32(sum, whole);
    const int64_t count = std::min(kFloats, k - i);
    _mm512_mask_cvtsepi32_storeu_epi8(to + i, static_cast<__mmask16>((1U << count) - 1), whole);
  }
  return _mm512_reduce_add_epi32(sum);
}

inline __mmask64 MaskOf(int64_t count) { return ~uint64_t{0} >> (kVector - std::min(kVector, count)); }

ROOFBENCH_TARGET_AVX512_VNNI inline __m512i Unsigned(__m512i w) {
  return _mm512_xor_si512(w, _mm512_set1_epi8(static_cast<char>(0x80)));
}

// Rows row + r · step of the weight times rows x_row + c of x, 64 columns at a time. Each line of either is loaded
// once.
template <int kRows, int kOfX>
ROOFBENCH_TARGET_AVX512_VNNI inline void DotTile(const Int8Block& block, int64_t row, int64_t step, int64_t x_row) {
  const int64_t k = block.k;
  const int8_t* const w = block.w + row * k;
  const int8_t* const x = block.x + x_row * block.stride;
  __m512i sums[kRows][kOfX];
#pragma GCC unroll 8
  for (auto& of_row : sums) {
#pragma GCC unroll 8
    for (__m512i& sum : of_row) sum = _mm512_setzero_si512();
  }
  int64_t i = 0;
  for (; i + kVector <= k; i += kVector) {
    __m512i of_x[kOfX];
#pragma GCC unroll 8
    for (int c = 0; c < kOfX; ++c) of_x[c] = _mm512_load_si512(x + c * block.stride + i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int8_t* const line = w + r * step * k + i;
      avx512::PrefetchL2(line + kAhead);
      const __m512i weights = Unsigned(_mm512_loadu_si512(line));
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) avx512::AddDot(sums[r][c], weights, of_x[c]);
    }
  }
  if (i < k) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i weights = Unsigned(_mm512_maskz_loadu_epi8(MaskOf(k - i), w + r * step * k + i));
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) {
        avx512::AddDot(sums[r][c], weights, _mm512_load_si512(x + c * block.stride + i));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kOfX; ++c) {
      block.products[(x_row + c) * block.width + row + r * step] =
          _mm512_reduce_add_epi32(sums[r][c]) - 128 * block.sums[x_row + c];
    }
  }
}

// Each of the streams in which the weight is read is a share of the rows, from one to the next: short rows side by side
// would all end at once and begin anew elsewhere.
template <int kOfX>
ROOFBENCH_TARGET_AVX512_VNNI void DotRows(const Int8Block& block, int64_t x_row) {
  constexpr int kStreams = kOfX == 1 ? 8 : 4;  // as many as there are registers for
  const int64_t step = block.rows / kStreams;
  for (int64_t i = 0; i < step; ++i) DotTile<kStreams, kOfX>(block, i, step, x_row);
  for (int64_t i = step * kStreams; i < block.rows; ++i) DotTile<1, kOfX>(block, i, 1, x_row);
}

using RowsFunction = void (*)(const Int8Block& block, int64_t x_row);

// Rows of x in groups of at most `most`, as even as can be: `by_count[c - 1]` takes c of them.
void InGroups(const Int8Block& block, int64_t most, const RowsFunction* by_count) {
  const int64_t groups = (block.m + most - 1) / most;
  for (int64_t group = 0; group < groups; ++group) {
    const Range rows = Share(block.m, 1, static_cast<int>(group), static_cast<int>(groups));
    by_count[rows.size() - 1](block, rows.begin);
  }
}

void FewRows(const Int8Block& block) {
  constexpr RowsFunction kByCount[] = {DotRows<1>, DotRows<2>, DotRows<3>, DotRows<4>, DotRows<5>, DotRows<6>};
  InGroups(block, std::size(kByCount), kByCount);
}

// 16 rows of 16 words become 16 columns of them.
ROOFBENCH_TARGET_AVX512_VNNI inline void Transpose(__m512i (&v)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  // Lane l of v[4 · g + c]: word 4 · l + c of rows 4 · g to 4 · g + 3.
#pragma GCC unroll 4
  for (int g = 0; g < 16; g += 4) {
    v[g] = _mm512_unpacklo_epi64(t[g], t[g + 2]);
    v[g + 1] = _mm512_unpackhi_epi64(t[g], t[g + 2]);
    v[g + 2] = _mm512_unpacklo_epi64(t[g + 1], t[g + 3]);
    v[g + 3] = _mm512_unpackhi_epi64(t[g + 1], t[g + 3]);
  }
  constexpr int kEven = 0x88;  // lanes 0 and 2 of both operands
  constexpr int kOdd = 0xdd;
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(v[c], v[4 + c], kEven);
    const __m512i even_high = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], kEven);
    const __m512i odd_low = _mm512_shuffle_i32x4(v[c], v[4 + c], kOdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], kOdd);
    t[c] = _mm512_shuffle_i32x4(even_low, even_high, kEven);
    t[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, kOdd);
    t[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, kEven);
    t[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, kOdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = t[i];
}

// [k / 4, 32 rows, 4] unsigned: a vector holds four columns of 16 rows, as the instruction sums them.
ROOFBENCH_TARGET_AVX512_VNNI void Pack(const int8_t* w, int64_t rows, int64_t k, uint8_t* panel) {
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t i = 0; i < k; i += kVector) {
      __m512i v[16];
#pragma GCC unroll 16
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t row = half * 16 + r;
        const __mmask64 mask = row < rows ? MaskOf(k - i) : 0;
        v[r] = Unsigned(_mm512_maskz_loadu_epi8(mask, w + (row < rows ? row * k + i : 0)));
      }
      Transpose(v);
      uint8_t* const to = panel + i * kInt8PanelRows + half * kVector;
#pragma GCC unroll 16
      for (int64_t g = 0; g < 16; ++g) _mm512_store_si512(to + g * 2 * kVector, v[g]);
    }
  }
}

// A panel times rows of x, four columns at a time: x is broadcast, and the products lie beside each other.
template <int kOfX>
ROOFBENCH_TARGET_AVX512_VNNI void PanelRows(const Int8Block& block, int64_t x_row) {
  const int8_t* x = block.x + x_row * block.stride;
  const uint8_t* panel = block.panel;
  const int64_t stride = block.stride;
  __m512i sums[kOfX][2];
#pragma GCC unroll 12
  for (auto& of_row : sums) of_row[0] = of_row[1] = _mm512_setzero_si512();
  for (int64_t i = 0; i < block.k; i += 4, panel += 2 * kVector, x += 4) {
    const __m512i low = _mm512_load_si512(panel);
    const __m512i high = _mm512_load_si512(panel + kVector);
#pragma GCC unroll 12
    for (int c = 0; c < kOfX; ++c) {
      int32_t four;
      std::memcpy(&four, x + c * stride, sizeof(four));
      const __m512i of_x = _mm512_set1_epi32(four);
      avx512::AddDot(sums[c][0], low, of_x);
      avx512::AddDot(sums[c][1], high, of_x);
    }
  }
#pragma GCC unroll 12
  for (int c = 0; c < kOfX; ++c) {
    const __m512i added = _mm512_set1_epi32(128 * block.sums[x_row + c]);
    int32_t* const to = block.products + (x_row + c) * block.width;
    _mm512_storeu_si512(to, _mm512_sub_epi32(sums[c][0], added));
    _mm512_storeu_si512(to + kFloats, _mm512_sub_epi32(sums[c][1], added));
  }
}

void ManyRows(const Int8Block& block) {
  constexpr RowsFunction kByCount[] = {PanelRows<1>, PanelRows<2>,  PanelRows<3>,  PanelRows<4>,
                                       PanelRows<5>, PanelRows<6>,  PanelRows<7>,  PanelRows<8>,
                                       PanelRows<9>, PanelRows<10>, PanelRows<11>, PanelRows<12>};
  InGroups(block, std::size(kByCount), kByCount);
}

}  // namespace

const LlmInt8Variant& Avx512LlmInt8Variant() {
  static constexpr LlmInt8Variant kVariant = {
      .largest = Largest, .quantize = Quantize, .few_rows = FewRows, .pack = Pack, .many_rows = ManyRows};
  return kVariant;
}

}  // namespace roofbench::kernels
#endif
