// SPDX-License-Identifier: Apache-2.0
// Rows of one product with several vectors. With a vector at a time, every product of two registers takes a load of
// weights from the second cache, which gives half a line a cycle: a quarter of the arithmetic roof.

#include "lib/kernels/operators/products/gemv_rows.h"

#if ROOFBENCH_X86

#include <algorithm>
#include <iterator>

#include "lib/kernels/simd/avx512_dots.h"
#include "lib/kernels/simd/avx512_lines.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kElements = 32;  // in a register

// Rows and vectors that are multiplied with each other.
struct Tile {
  const Bf16* weight;  // the first row
  int64_t row_stride;  // from a row to the next one
  const Bf16* x;       // the first vector
  int64_t k;           // elements of a row and of a vector
  float* y;            // the result of the first row and vector
  int64_t y_row_stride;
  int64_t y_vector_stride;
};

// The sums of four registers. Adds in the order of _mm512_reduce_add_ps, so that a vector has the same result alone and
// among others.
ROOFBENCH_TARGET_AVX512_BF16 inline __m128 SumsOf(__m512 a, __m512 b, __m512 c, __m512 d) {
  constexpr int kLowerHalves = 0x44;
  constexpr int kUpperHalves = 0xee;
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, kLowerHalves), _mm512_shuffle_f32x4(a, b, kUpperHalves));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, kLowerHalves), _mm512_shuffle_f32x4(c, d, kUpperHalves));
  constexpr int kEvenQuarters = 0x88;
  constexpr int kOddQuarters = 0xdd;
  __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, kEvenQuarters), _mm512_shuffle_f32x4(ab, cd, kOddQuarters));
  constexpr int kSwapPairs = 0x4e;
  constexpr int kSwapNeighbours = 0xb1;
  all = _mm512_add_ps(all, _mm512_permute_ps(all, kSwapPairs));
  all = _mm512_add_ps(all, _mm512_permute_ps(all, kSwapNeighbours));
  constexpr __mmask16 kFirstOfEachQuarter = 0x1111;
  return _mm512_castps512_ps128(_mm512_maskz_compress_ps(kFirstOfEachQuarter, all));
}

// The next elements of all rows and vectors, `count` of them. Each line is loaded once. `ahead`: how far ahead of it
// one comes into the second cache.
template <int kRows, int kVectors, bool kFetches>
ROOFBENCH_TARGET_AVX512_BF16 inline void AddStep(const Tile& tile, int64_t i, int64_t count, int64_t ahead,
                                                 __m512 (&sums)[kRows][kVectors]) {
  const auto load = [count](const Bf16* from) ROOFBENCH_TARGET_AVX512_BF16 {
    return count == kElements ? avx512::LoadLine(from) : avx512::LoadFirst(from, count);
  };
  __m512i x[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) x[v] = load(tile.x + v * tile.k + i);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Bf16* const line = tile.weight + r * tile.row_stride + i;
    if constexpr (kFetches) avx512::PrefetchL2(reinterpret_cast<const char*>(line) + ahead);
    const __m512i w = load(line);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) avx512::AddDot(sums[r][v], w, x[v]);
  }
}

template <int kRows, int kVectors, bool kFetches>
ROOFBENCH_TARGET_AVX512_BF16 inline void Multiply(const Tile& tile, int64_t ahead) {
  static_assert(kRows % 4 == 0);
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 8
  for (auto& sums_of_row : sums) {
#pragma GCC unroll 8
    for (__m512& sum : sums_of_row) sum = _mm512_setzero_ps();
  }
  int64_t i = 0;
  for (; i + kElements <= tile.k; i += kElements) AddStep<kRows, kVectors, kFetches>(tile, i, kElements, ahead, sums);
  if (i < tile.k) AddStep<kRows, kVectors, kFetches>(tile, i, tile.k - i, ahead, sums);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r += 4) {
      float results[4];
      _mm_storeu_ps(results, SumsOf(sums[r][v], sums[r + 1][v], sums[r + 2][v], sums[r + 3][v]));
      float* const y = tile.y + v * tile.y_vector_stride + r * tile.y_row_stride;
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) y[j * tile.y_row_stride] = results[j];
    }
  }
}

// Of the 32 registers, those for sums: as many as are left beside the vectors and a line of weights. A row is a stream
// of memory: eight of them where that goes, as for one vector.
template <int kVectors>
ROOFBENCH_TARGET_AVX512_BF16 void RowsOf(const Bf16Weight& weight, const Bf16* x, float* y, int64_t y_stride,
                                         Range rows, const FetchPlan& fetch) {
  constexpr int kRows = kVectors <= 3 ? 8 : 4;
  const int64_t stride = rows.size() / kRows;
  Tile tile = {.weight = weight.data + rows.begin * weight.k,
               .row_stride = stride * weight.k,
               .x = x,
               .k = weight.k,
               .y = y,
               .y_row_stride = stride,
               .y_vector_stride = y_stride};
  for (int64_t row = 0; row < stride; ++row, tile.weight += weight.k, ++tile.y) {
    if (row % fetch.shares == fetch.share) {
      Multiply<kRows, kVectors, true>(tile, fetch.ahead);
    } else {
      Multiply<kRows, kVectors, false>(tile, 0);
    }
  }
}

// Sums of products of unsigned bytes of weights with both bytes of a vector.
struct ByteSums {
  __m512i upper;
  __m512i lower;
};

// kRows rows of int8 with all vectors. The dot product takes one side unsigned: w + 128, taken back by lane_sums.
template <int kRows, int kVectors, bool kFetches>
ROOFBENCH_TARGET_AVX512_VNNI inline void MultiplyInt8(const Int8Weight& weight, int64_t row, int64_t stride,
                                                      const FixedPoint* const* x, float* y, int64_t y_stride,
                                                      int64_t ahead) {
  const int8_t* const first = weight.data + row * weight.k;
  const __m512i sign = _mm512_set1_epi8(-128);
  __m512 totals[kRows][kVectors];
  for (auto& of_row : totals) std::fill(std::begin(of_row), std::end(of_row), _mm512_setzero_ps());
  for (int64_t block = 0, begin = 0; begin < weight.k; ++block, begin += FixedPoint::kBlock) {
    const int64_t end = std::min(begin + FixedPoint::kBlock, weight.k);
    ByteSums sums[kRows][kVectors];
#pragma GCC unroll 8
    for (auto& of_row : sums) {
#pragma GCC unroll 8
      for (ByteSums& sum : of_row) sum = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    }
    for (int64_t i = begin; i < end; i += kLineBytes) {
      __m512i w[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int8_t* const line = first + r * stride * weight.k + i;
        if constexpr (kFetches) avx512::PrefetchL2(line + ahead);
        const __mmask64 mask = ~uint64_t{0} >> (kLineBytes - std::min(kLineBytes, end - i));
        w[r] = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, line), sign);
      }
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const __m512i high = _mm512_load_si512(x[v]->high.data()->bytes + i);
        const __m512i low = _mm512_load_si512(x[v]->low.data()->bytes + i);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          avx512::AddDot(sums[r][v].upper, w[r], high);
          avx512::AddDot(sums[r][v].lower, w[r], low);
        }
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const __m512i lane_sums = _mm512_loadu_si512(&x[v]->lane_sums[block * FixedPoint::kLanes]);
      const __m512 scale = _mm512_set1_ps(x[v]->scales[block]);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(sums[r][v].upper, 8), sums[r][v].lower);
        totals[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(both, lane_sums)), scale, totals[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      y[v * y_stride + r * stride] = _mm512_reduce_add_ps(totals[r][v]) * weight.scales[row + r * stride];
    }
  }
}

template <int kVectors>
ROOFBENCH_TARGET_AVX512_VNNI void RowsOf(const Int8Weight& weight, const FixedPoint* const* x, float* y,
                                         int64_t y_stride, Range rows, const FetchPlan& fetch) {
  constexpr int kRows = kVectors <= 3 ? 4 : 2;
  const int64_t stride = rows.size() / kRows;
  for (int64_t i = 0; i < stride; ++i) {
    if (i % fetch.shares == fetch.share) {
      MultiplyInt8<kRows, kVectors, true>(weight, rows.begin + i, stride, x, y + i, y_stride, fetch.ahead);
    } else {
      MultiplyInt8<kRows, kVectors, false>(weight, rows.begin + i, stride, x, y + i, y_stride, 0);
    }
  }
}

}  // namespace

ROOFBENCH_TARGET_AVX512_BF16 void Avx512Vectors(const Bf16Weight& weight, const Bf16* x, int64_t vectors, float* y,
                                                int64_t y_stride, Range rows, const FetchPlan& fetch) {
  using Kernel = void (*)(const Bf16Weight&, const Bf16*, float*, int64_t, Range, const FetchPlan&);
  constexpr Kernel kVariants[kMostVectors - 1] = {RowsOf<2>, RowsOf<3>, RowsOf<4>, RowsOf<5>, RowsOf<6>};
  // Those that are left have their sums in another order, as they have for one vector.
  const int64_t in_streams = rows.size() / kRowStreams * kRowStreams;
  kVariants[vectors - 2](weight, x, y, y_stride, {rows.begin, rows.begin + in_streams}, fetch);
  for (int64_t v = 0; v < vectors; ++v) {
    Avx512Rows(weight, x + v * weight.k, y + v * y_stride + in_streams, Range{rows.begin + in_streams, rows.end});
  }
}

void Avx512Vectors(const Int8Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch) {
  using Kernel = void (*)(const Int8Weight&, const FixedPoint* const*, float*, int64_t, Range, const FetchPlan&);
  constexpr Kernel kVariants[kMostVectors - 1] = {RowsOf<2>, RowsOf<3>, RowsOf<4>, RowsOf<5>, RowsOf<6>};
  // A multiple of the rows of every tile. Sums are exact, so that their order does not matter.
  const int64_t in_tiles = rows.size() / 4 * 4;
  kVariants[vectors - 2](weight, x, y, y_stride, {rows.begin, rows.begin + in_tiles}, fetch);
  for (int64_t v = 0; v < vectors; ++v) {
    Avx512Rows(weight, *x[v], y + v * y_stride + in_tiles, Range{rows.begin + in_tiles, rows.end});
  }
}

}  // namespace roofbench::kernels

#endif
