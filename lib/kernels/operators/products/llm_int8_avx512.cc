// SPDX-License-Identifier: Apache-2.0
// LLM.int8() with AVX-512 and its 8-bit dot products, and with tiles.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>

#include "lib/kernels/operators/products/gemv_rows.h"
#include "lib/kernels/operators/products/int8_tiles.h"
#include "lib/kernels/operators/products/int8_variant.h"
#include "lib/kernels/simd/avx512.h"

#if ROOFBENCH_X86
namespace roofbench::kernels {
namespace {

constexpr int64_t kFloats = 16;  // in a vector

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

ROOFBENCH_TARGET_AVX512 float Largest(const Bf16* x, int64_t k, float threshold, uint64_t* outliers) {
  __m512 largest = _mm512_setzero_ps();
  for (int64_t i = 0; i < k; i += kFloats) {
    const __m512 magnitude = _mm512_abs_ps(Load(x, i, k));
    largest = _mm512_mask_max_ps(largest, Below(magnitude, threshold), largest, magnitude);
    if (threshold <= 0) continue;
    const uint64_t found = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(threshold), _CMP_GE_OQ);
    // Another thread may find a column in another row.
    if (found != 0) std::atomic_ref(outliers[i / 64]).fetch_or(found << (i % 64), std::memory_order_relaxed);
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

// The sums of the outlier columns of DotRows, which are still in the first-level cache.
template <int kRows>
ROOFBENCH_TARGET_AVX512 inline void SumOutliers(const Int8Block& block, int64_t row, int64_t step) {
  static_assert(OutlierGroups::kColumns == kFloats);
  const auto groups = static_cast<int64_t>(block.outlier_groups.size());
  const __mmask16 mask = avx512::Mask16(block.k);  // all, unless the only group is the whole row
  const int8_t* const w = block.w + row * block.k;
  __m512 sums[kRows];
#pragma GCC unroll 8
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    const int8_t* const group = w + block.outlier_groups[static_cast<std::size_t>(g)];
    const __m512 x = _mm512_loadu_ps(block.outlier_x + g * kFloats);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m128i bytes = _mm_maskz_loadu_epi8(mask, group + r * step * block.k);
      sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), x, sums[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) block.outlier_sums[row + r * step] = _mm512_reduce_add_ps(sums[r]);
}

// Multiplies rows row + r · step of the weight with a row of x, 64 columns at a time.
template <int kRows, bool kFetches>
ROOFBENCH_TARGET_AVX512_VNNI inline void DotRows(const Int8Block& block, int64_t row, int64_t step) {
  const int64_t k = block.k;
  const int8_t* const w = block.w + row * k;
  __m512i sums[kRows];
#pragma GCC unroll 8
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  int64_t i = 0;
  for (; i + kLineBytes <= k; i += kLineBytes) {
    const __m512i x = _mm512_load_si512(block.x + i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int8_t* const line = w + r * step * k + i;
      if constexpr (kFetches) avx512::PrefetchL2(line + kRowAhead);
      avx512::AddDot(sums[r], avx512::Unsigned(_mm512_loadu_si512(line)), x);
    }
  }
  if (i < k) {
    const __m512i x = _mm512_load_si512(block.x + i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      avx512::AddDot(sums[r], avx512::Unsigned(_mm512_maskz_loadu_epi8(avx512::Mask64(k - i), w + r * step * k + i)),
                     x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    block.products[row + r * step] = _mm512_reduce_add_epi32(sums[r]) - 128 * block.sums[0];
  }
  if (!block.outlier_groups.empty()) SumOutliers<kRows>(block, row, step);
}

// A row of x. Each stream of the weight is a contiguous share of the rows: adjacent short rows would all end at once
// and restart elsewhere.
template <int kStreams>
void StreamRows(const Int8Block& block) {
  const int64_t step = block.rows / kStreams;
  for (int64_t i = 0; i < step; ++i) DotRows<kStreams, kStreams == kRowStreams>(block, i, step);
  for (int64_t i = step * kStreams; i < block.rows; ++i) DotRows<1, true>(block, i, 1);
}

void OneRow(const Int8Block& block) {
  IsaHas(kFewStreams) ? StreamRows<kFewRowStreams>(block) : StreamRows<kRowStreams>(block);
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

// Rows of x in groups of at most 12, as even as possible.
void ManyRows(const Int8Block& block) {
  constexpr void (*kByCount[])(const Int8Block&, int64_t) = {PanelRows<1>, PanelRows<2>,  PanelRows<3>,  PanelRows<4>,
                                                             PanelRows<5>, PanelRows<6>,  PanelRows<7>,  PanelRows<8>,
                                                             PanelRows<9>, PanelRows<10>, PanelRows<11>, PanelRows<12>};
  InGroups(block, std::size(kByCount), kByCount);
}

// Registers, but for few rows of x, of which vectors waste less.
void MultiplyByRegisters(const Int8Block& block) {
  block.few_columns ? MultiplyInt8ByTiles<VectorTiles>(block) : MultiplyInt8ByTiles<HardwareTiles>(block);
}

}  // namespace

const Int8Variant& Avx512Int8Variant() {
  static constexpr Int8Variant kVariant = {.largest = Largest,
                                           .quantize = Quantize,
                                           .few_rows = OneRow,
                                           .most_outlier_rows = 1,
                                           .by_tiles = MultiplyInt8ByTiles<VectorTiles>,
                                           .most_few_columns = kFewTileColumns,
                                           .tile_block_rows = 128,
                                           .tile_rows_at_once = 64,
                                           .pack = Pack,
                                           .many_rows = ManyRows};
  return kVariant;
}

const Int8Variant& AmxInt8Variant() {
  static constexpr Int8Variant kVariant = {.largest = Largest,
                                           .quantize = Quantize,
                                           .few_rows = OneRow,
                                           .most_outlier_rows = 1,
                                           .by_tiles = MultiplyByRegisters,
                                           .most_few_columns = kLeastTileLinearRows - 1,
                                           .tile_block_rows = 256,
                                           .tile_rows_at_once = 128};
  return kVariant;
}

}  // namespace roofbench::kernels
#endif
