// SPDX-License-Identifier: Apache-2.0
// The product with AVX-512 and its 8-bit dot products, which multiply unsigned by signed: q is unsigned as it is.
#include "lib/kernels/operators/products/int4_product_avx512.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "lib/kernels/operators/products/llm_int8.h"
#include "lib/kernels/simd/avx512_dots.h"
#include "lib/kernels/simd/avx512_lines.h"
#include "lib/kernels/threading/parallel_for.h"

#if ROOFBENCH_X86
namespace roofbench::kernels {
namespace avx512 {
namespace {

constexpr int64_t kFloats = 16;  // in a vector: the rows of a tile

ROOFBENCH_TARGET_AVX512_VNNI inline void Store(float* to, int64_t count, __m512 values) {
  if (count >= kFloats) return _mm512_storeu_ps(to, values);
  StoreFirst(to, count, _mm512_castps_si512(values));
}

// Rounds to nearest, ties to even, as ToBf16: processors with 8-bit dot products need not have bf16.
ROOFBENCH_TARGET_AVX512_VNNI inline void Store(Bf16* to, int64_t count, __m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i upper = _mm512_srli_epi32(bits, 16);
  const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(upper, _mm512_set1_epi32(1)));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i words = _mm512_mask_or_epi32(rounded, is_nan, upper, _mm512_set1_epi32(0x40));
  const auto mask = static_cast<__mmask16>((1U << std::min(count, kFloats)) - 1);
  _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(words));
}

struct Halves {
  __m512i lower;
  __m512i upper;
};

// Bytes hold columns 0 … 3 in their lower and 4 … 7 in their upper halves.
ROOFBENCH_TARGET_AVX512_VNNI inline Halves HalvesOf(__m512i words) {
  const __m512i mask = _mm512_set1_epi8(15);
  return {_mm512_and_si512(words, mask), _mm512_and_si512(_mm512_srli_epi32(words, 4), mask)};
}

struct Scales {
  __m512 scale;
  __m512 zero;  // of q, not of q - 8
};

ROOFBENCH_TARGET_AVX512_VNNI inline Scales ScalesOf(__m512i words) {
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  const __m512i upper = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)));
  return {scale, _mm512_fnmadd_ps(_mm512_set1_ps(8), scale, _mm512_castsi512_ps(upper))};
}

// The tile times kOfX rows of x, eight columns at a time: x is broadcast, and each lane sums a row of the tile.
template <int kOfX, typename Y>
ROOFBENCH_TARGET_AVX512_VNNI void TileRows(const Int4Block<Y>& block, int64_t x_row) {
  const std::byte* tile = block.tile;
  const int64_t stride = block.stride;
  const int8_t* x = block.x + x_row * stride;
  const int64_t groups = block.k / block.group;
  const float* x_sums = block.x_sums + x_row * groups;
  __m512 totals[kOfX];
#pragma GCC unroll 8
  for (__m512& total : totals) total = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g, ++x_sums) {
    __m512i sums[kOfX];
#pragma GCC unroll 8
    for (__m512i& sum : sums) sum = _mm512_setzero_si512();
    FetchStream(tile);
    const Scales of_group = ScalesOf(_mm512_loadu_si512(tile));
    tile += kLineBytes;
    for (int64_t i = 0; i < block.group; i += 8, tile += kLineBytes, x += 8) {
      FetchStream(tile);
      const Halves halves = HalvesOf(_mm512_loadu_si512(tile));
#pragma GCC unroll 8
      for (int c = 0; c < kOfX; ++c) {
        AddDotOfFour(sums[c], halves.lower, x + c * stride);
        AddDotOfFour(sums[c], halves.upper, x + c * stride + 4);
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kOfX; ++c) {
      totals[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c]), of_group.scale, totals[c]);
      totals[c] = _mm512_fmadd_ps(_mm512_set1_ps(x_sums[c * groups]), of_group.zero, totals[c]);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kOfX; ++c) {
    const __m512 scale = _mm512_set1_ps(block.x_max[x_row + c] / kInt8Largest);
    Store(block.y + (x_row + c) * block.y_stride, block.rows, _mm512_mul_ps(totals[c], scale));
  }
}

ROOFBENCH_TARGET_AVX512_VNNI void UnpackTile(const Int4Weight& weight, int64_t index, int64_t half, uint8_t* panel,
                                             float* scales) {
  const std::byte* tile = weight.data + index * Int4TileBytes(weight.k, weight.group);
  panel += half * kLineBytes;
  scales += half * kFloats;
  for (int64_t g = 0; g < weight.k; g += weight.group, scales += 2 * kInt4PanelRows) {
    FetchStream(tile);
    const Scales of_group = ScalesOf(_mm512_loadu_si512(tile));
    tile += kLineBytes;
    _mm512_store_ps(scales, of_group.scale);
    _mm512_store_ps(scales + kInt4PanelRows, of_group.zero);
    for (int64_t i = 0; i < weight.group; i += 8, tile += kLineBytes, panel += 4 * kLineBytes) {
      FetchStream(tile);
      const Halves halves = HalvesOf(_mm512_loadu_si512(tile));
      _mm512_store_si512(panel, halves.lower);
      _mm512_store_si512(panel + 2 * kLineBytes, halves.upper);
    }
  }
}

// The panel times rows of x, four columns at a time: x is broadcast, and the products lie beside each other.
template <int kOfX, typename Y>
ROOFBENCH_TARGET_AVX512_VNNI void PanelRows(const Int4Block<Y>& block, int64_t x_row) {
  const int8_t* x = block.x + x_row * block.stride;
  const uint8_t* panel = block.panel;
  const float* scales = block.scales;
  const int64_t stride = block.stride;
  const int64_t groups = block.k / block.group;
  const float* const x_sums = block.x_sums + x_row * groups;
  __m512 totals[kOfX][2];
#pragma GCC unroll 6
  for (auto& of_row : totals) of_row[0] = of_row[1] = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g, scales += 2 * kInt4PanelRows) {
    __m512i sums[kOfX][2];
#pragma GCC unroll 6
    for (auto& of_row : sums) of_row[0] = of_row[1] = _mm512_setzero_si512();
    for (int64_t i = 0; i < block.group; i += 4, panel += 2 * kLineBytes, x += 4) {
      const __m512i low = _mm512_load_si512(panel);
      const __m512i high = _mm512_load_si512(panel + kLineBytes);
#pragma GCC unroll 6
      for (int c = 0; c < kOfX; ++c) {
        int32_t four;
        std::memcpy(&four, x + c * stride, sizeof(four));
        const __m512i of_x = _mm512_set1_epi32(four);
        avx512::AddDot(sums[c][0], low, of_x);
        avx512::AddDot(sums[c][1], high, of_x);
      }
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512 scale = _mm512_load_ps(scales + half * kFloats);
      const __m512 zero = _mm512_load_ps(scales + kInt4PanelRows + half * kFloats);
#pragma GCC unroll 6
      for (int c = 0; c < kOfX; ++c) {
        totals[c][half] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[c][half]), scale, totals[c][half]);
        totals[c][half] = _mm512_fmadd_ps(_mm512_set1_ps(x_sums[c * groups + g]), zero, totals[c][half]);
      }
    }
  }
#pragma GCC unroll 6
  for (int c = 0; c < kOfX; ++c) {
    const __m512 scale = _mm512_set1_ps(block.x_max[x_row + c] / kInt8Largest);
    Y* const y = block.y + (x_row + c) * block.y_stride;
    Store(y, block.rows, _mm512_mul_ps(totals[c][0], scale));
    if (block.rows > kFloats) Store(y + kFloats, block.rows - kFloats, _mm512_mul_ps(totals[c][1], scale));
  }
}

// Rows of x in groups that registers hold, as even as can be: `by_count[c - 1]` takes c of them.
template <typename Y>
void InGroups(const Int4Block<Y>& block, int64_t most, void (*const* by_count)(const Int4Block<Y>&, int64_t)) {
  const int64_t groups = (block.m + most - 1) / most;
  for (int64_t group = 0; group < groups; ++group) {
    const Range rows = Share(block.m, 1, static_cast<int>(group), static_cast<int>(groups));
    by_count[rows.size() - 1](block, rows.begin);
  }
}

template <typename Y>
void FewRows(const Int4Block<Y>& block) {
  constexpr void (*kByCount[])(const Int4Block<Y>&, int64_t) = {TileRows<1, Y>, TileRows<2, Y>, TileRows<3, Y>,
                                                                TileRows<4, Y>, TileRows<5, Y>, TileRows<6, Y>,
                                                                TileRows<7, Y>, TileRows<8, Y>};
  InGroups(block, std::size(kByCount), kByCount);
}

template <typename Y>
void ManyRows(const Int4Block<Y>& block) {
  constexpr void (*kByCount[])(const Int4Block<Y>&, int64_t) = {PanelRows<1, Y>, PanelRows<2, Y>, PanelRows<3, Y>,
                                                                PanelRows<4, Y>, PanelRows<5, Y>, PanelRows<6, Y>};
  InGroups(block, std::size(kByCount), kByCount);
}

}  // namespace
}  // namespace avx512

template <typename Y>
const Int4Variant<Y>& Avx512Int4Variant() {
  static constexpr Int4Variant<Y> kVariant = {
      .few_rows = avx512::FewRows<Y>, .unpack = avx512::UnpackTile, .many_rows = avx512::ManyRows<Y>};
  return kVariant;
}

template const Int4Variant<float>& Avx512Int4Variant();
template const Int4Variant<Bf16>& Avx512Int4Variant();

}  // namespace roofbench::kernels
#endif
