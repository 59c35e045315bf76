// SPDX-License-Identifier: Apache-2.0
// LLM.int8() with AVX-512 and its 8-bit dot products, and with tiles.

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <limits>

#include "lib/kernels/operators/products/int8_tiles.h"
#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/simd/avx512.h"

#if ROOFBENCH_X86
namespace roofbench::kernels {
namespace {

constexpr int64_t kFloats = 16;  // in a vector
// Prefetch distance of a row into the second-level cache.
constexpr int64_t kAhead = 2048;

// Loads 16 elements from x[i] on as fp32, zeros after the k-th.
ROOFBENCH_TARGET_AVX512 inline __m512 Load(const Bf16* x, int64_t i, int64_t k) {
  if (k - i >= kFloats) return avx512::Load16(x + i);
  return avx512::Widen(_mm512_castsi512_si256(avx512::LoadFirst(x + i, k - i)));
}

// The mask of magnitudes below `threshold` (0: all).
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
    // NaNs, which infinities in a row produce, become the lower bound: max returns its second operand.
    const __m512 scaled = _mm512_max_ps(_mm512_mul_ps(value, _mm512_set1_ps(inverse)), _mm512_set1_ps(-kInt8Largest));
    // Rounds to even, the processor's mode.
    const __m512i whole = _mm512_maskz_cvtps_epi32(below, _mm512_min_ps(scaled, _mm512_set1_ps(kInt8Largest)));
    sum = _mm512_add_epi32(sum, whole);
    _mm512_mask_cvtsepi32_storeu_epi8(to + i, avx512::Mask16(k - i), whole);
  }
  return _mm512_reduce_add_epi32(sum);
}

// The sums of the outlier columns of DotTile's rows, which are still in the first-level cache.
template <int kRows, int kOfX>
ROOFBENCH_TARGET_AVX512 inline void SumOutliers(const Int8Block& block, int64_t row, int64_t step, int64_t x_row) {
  static_assert(OutlierGroups::kColumns == kFloats);
  const auto groups = static_cast<int64_t>(block.outlier_groups.size());
  const __mmask16 mask = avx512::Mask16(block.k);  // all, unless the only group is the whole row
  const int8_t* const w = block.w + row * block.k;
  const float* const x = block.outlier_x + x_row * groups * kFloats;
  __m512 sums[kRows][kOfX];
  avx512::Clear(sums);
  for (int64_t g = 0; g < groups; ++g) {
    const int8_t* const group = w + block.outlier_groups[static_cast<std::size_t>(g)];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m128i bytes = _mm_maskz_loadu_epi8(mask, group + r * step * block.k);
      const __m512 weights = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) {
        sums[r][c] = _mm512_fmadd_ps(weights, _mm512_loadu_ps(x + (c * groups + g) * kFloats), sums[r][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kOfX; ++c) {
      block.outlier_sums[(x_row + c) * block.width + row + r * step] = _mm512_reduce_add_ps(sums[r][c]);
    }
  }
}

// Multiplies rows row + r · step of the weight with rows x_row + c of x, 64 columns at a time. Each line of either is
// loaded once.
template <int kRows, int kOfX, bool kFetches>
ROOFBENCH_TARGET_AVX512_VNNI inline void DotTile(const Int8Block& block, int64_t row, int64_t step, int64_t x_row) {
  const int64_t k = block.k;
  const int8_t* const w = block.w + row * k;
  const int8_t* const x = block.x + x_row * block.stride;
  __m512i sums[kRows][kOfX];
  avx512::Clear(sums);
  int64_t i = 0;
  for (; i + kLineBytes <= k; i += kLineBytes) {
    __m512i of_x[kOfX];
#pragma GCC unroll 8
    for (int c = 0; c < kOfX; ++c) of_x[c] = _mm512_load_si512(x + c * block.stride + i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int8_t* const line = w + r * step * k + i;
      if constexpr (kFetches) avx512::PrefetchL2(line + kAhead);
      const __m512i weights = avx512::Unsigned(_mm512_loadu_si512(line));
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) avx512::AddDot(sums[r][c], weights, of_x[c]);
    }
  }
  if (i < k) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i weights = avx512::Unsigned(_mm512_maskz_loadu_epi8(avx512::Mask64(k - i), w + r * step * k + i));
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
  if (!block.outlier_groups.empty()) SumOutliers<kRows, kOfX>(block, row, step, x_row);
}

// Each stream of the weight is a contiguous share of the rows: adjacent short rows would all end at once and restart
// elsewhere. As many as there are registers for, or two without prefetches (see kFewStreams).
template <int kOfX, bool kFew>
ROOFBENCH_TARGET_AVX512_VNNI void DotRows(const Int8Block& block, int64_t x_row) {
  constexpr int kMostStreams = kOfX == 1 ? 8 : 4;
  constexpr int kStreams = kFew ? 2 : kMostStreams;
  const int64_t step = block.rows / kStreams;
  for (int64_t i = 0; i < step; ++i) DotTile<kStreams, kOfX, !kFew>(block, i, step, x_row);
  for (int64_t i = step * kStreams; i < block.rows; ++i) DotTile<1, kOfX, true>(block, i, 1, x_row);
}

template <bool kFew>
void FewRowsInStreams(const Int8Block& block) {
  constexpr void (*kByCount[])(const Int8Block&, int64_t) = {DotRows<1, kFew>, DotRows<2, kFew>, DotRows<3, kFew>,
                                                             DotRows<4, kFew>, DotRows<5, kFew>, DotRows<6, kFew>};
  InGroups(block, std::size(kByCount), kByCount);
}

void FewRows(const Int8Block& block) {
  IsaHas(kFewStreams) ? FewRowsInStreams<true>(block) : FewRowsInStreams<false>(block);
}

// [k / 4, 32 rows, 4] unsigned: a vector holds four columns of 16 rows, the order in which the instruction sums them.
ROOFBENCH_TARGET_AVX512_VNNI void Pack(const int8_t* w, int64_t rows, int64_t k, uint8_t* panel) {
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t i = 0; i < k; i += kLineBytes) {
      __m512i v[16];
#pragma GCC unroll 16
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t row = half * 16 + r;
        const __mmask64 mask = row < rows ? avx512::Mask64(k - i) : 0;
        v[r] = avx512::Unsigned(_mm512_maskz_loadu_epi8(mask, w + (row < rows ? row * k + i : 0)));
      }
      avx512::Transpose(v);
      uint8_t* const to = panel + i * kInt8PanelRows + half * kLineBytes;
#pragma GCC unroll 16
      for (int64_t g = 0; g < 16; ++g) _mm512_store_si512(to + g * 2 * kLineBytes, v[g]);
    }
  }
}

// Multiplies a panel with rows of x, four columns at a time: x is broadcast, and the products are adjacent.
template <int kOfX>
ROOFBENCH_TARGET_AVX512_VNNI void PanelRows(const Int8Block& block, int64_t x_row) {
  const int8_t* x = block.x + x_row * block.stride;
  const uint8_t* panel = block.panel;
  const int64_t stride = block.stride;
  __m512i sums[kOfX][2];
  avx512::Clear(sums);
  for (int64_t i = 0; i < block.k; i += 4, panel += 2 * kLineBytes, x += 4) {
    const __m512i low = _mm512_load_si512(panel);
    const __m512i high = _mm512_load_si512(panel + kLineBytes);
#pragma GCC unroll 12
    for (int c = 0; c < kOfX; ++c) {
      const __m512i of_x = avx512::BroadcastFour(x + c * stride);
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
  constexpr void (*kByCount[])(const Int8Block&, int64_t) = {PanelRows<1>, PanelRows<2>,  PanelRows<3>,  PanelRows<4>,
                                                             PanelRows<5>, PanelRows<6>,  PanelRows<7>,  PanelRows<8>,
                                                             PanelRows<9>, PanelRows<10>, PanelRows<11>, PanelRows<12>};
  InGroups(block, std::size(kByCount), kByCount);
}

}  // namespace

const Int8Variant& Avx512Int8Variant() {
  static constexpr Int8Variant kVariant = {.largest = Largest,
                                           .quantize = Quantize,
                                           .few_rows = FewRows,
                                           .most_outlier_rows = kLeastTileLinearRows - 1,  // as those of tiles
                                           .pack = Pack,
                                           .many_rows = ManyRows};
  return kVariant;
}

const Int8Variant& AmxInt8Variant() {
  static const Int8Variant kVariant = [] {
    Int8Variant variant = Avx512Int8Variant();
    variant.by_tiles = MultiplyInt8ByTiles<HardwareTiles>;
    return variant;
  }();
  return kVariant;
}

}  // namespace roofbench::kernels
#endif
