// SPDX-License-Identifier: Apache-2.0
// Highway 1.0.3 has neither the bf16 nor the 8-bit dot product.

#include "lib/kernels/operators/products/gemv_rows.h"

#if ROOFBENCH_X86

#include <algorithm>

#include "lib/kernels/simd/avx512.h"

namespace roofbench::kernels {
namespace {

constexpr int64_t kElements = 32;  // of bf16, in a register

// y[r · stride] = row + r · stride times x, each in kSums independent sums, so that the latency of the addition hides.
template <int kRows, int kSums, bool kFetches>
ROOFBENCH_TARGET_AVX512_BF16 inline void DotRows(const Bf16Weight& weight, int64_t row, int64_t stride, const Bf16* x,
                                                 float* y) {
  const int64_t k = weight.k;
  const Bf16* const w = weight.data + row * k;
  __m512 sums[kRows][kSums];
  avx512::Clear(sums);
  int64_t i = 0;
  for (; i + kSums * kElements <= k; i += kSums * kElements) {
#pragma GCC unroll 8
    for (int s = 0; s < kSums; ++s) {
      const int64_t at = i + s * kElements;
      const __m512i of_x = avx512::LoadLine(x + at);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Bf16* const line = w + r * stride * k + at;
        if constexpr (kFetches) avx512::PrefetchL2(reinterpret_cast<const char*>(line) + kRowAhead);
        sums[r][s] = avx512::PlusDot(sums[r][s], avx512::LoadLine(line), of_x);
      }
    }
  }
  for (; i < k; i += kElements) {
    const __m512i of_x = avx512::LoadFirst(x + i, k - i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r][0] = avx512::PlusDot(sums[r][0], avx512::LoadFirst(w + r * stride * k + i, k - i), of_x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int distance = kSums / 2; distance > 0; distance /= 2) {
#pragma GCC unroll 8
      for (int s = 0; s < distance; ++s) sums[r][s] = _mm512_add_ps(sums[r][s], sums[r][s + distance]);
    }
    y[r * stride] = _mm512_reduce_add_ps(sums[r][0]);
  }
}

// Converts one block of kBlock elements. False if it cannot be represented.
ROOFBENCH_TARGET_AVX512_VNNI inline bool ConvertBlock(const Bf16* x, int8_t* high, int8_t* low, float& scale,
                                                      int32_t* lane_sums) {
  constexpr int64_t kFloats = 16;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i largest_bits = _mm512_setzero_si512();
  for (int64_t i = 0; i < FixedPoint::kBlock; i += kFloats) {
    // As integers, magnitudes keep their order, with infinities and NaNs at the top.
    largest_bits =
        _mm512_max_epu32(largest_bits, _mm512_and_si512(_mm512_castps_si512(avx512::Load16(x + i)), magnitude));
  }
  const auto bits = static_cast<int32_t>(_mm512_reduce_max_epu32(largest_bits));
  const float largest = _mm512_cvtss_f32(_mm512_castsi512_ps(_mm512_set1_epi32(bits)));
  constexpr float kSmallest = 1e-30F;  // its reciprocal, times kRange, is finite
  constexpr int32_t kInfinity = 0x7f800000;
  if (bits >= kInfinity || (largest > 0 && largest < kSmallest)) return false;
  constexpr float kRange = 127 * 256;  // so that the upper byte stays below 128 after rounding
  scale = largest / kRange;
  const __m512 inverse = _mm512_set1_ps(largest > 0 ? kRange / largest : 0);
  for (int64_t i = 0; i < FixedPoint::kBlock; i += kFloats) {
    const __m512i value = _mm512_cvtps_epi32(_mm512_mul_ps(avx512::Load16(x + i), inverse));
    const __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(value, _mm512_set1_epi32(128)), 8);
    const __m512i lower = _mm512_sub_epi32(value, _mm512_slli_epi32(upper, 8));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(high + i), _mm512_cvtepi32_epi8(upper));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(low + i), _mm512_cvtepi32_epi8(lower));
  }
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i upper_sums = _mm512_setzero_si512();
  __m512i lower_sums = _mm512_setzero_si512();
  for (int64_t i = 0; i < FixedPoint::kBlock; i += kLineBytes) {
    upper_sums = _mm512_dpbusd_epi32(upper_sums, ones, _mm512_loadu_si512(high + i));
    lower_sums = _mm512_dpbusd_epi32(lower_sums, ones, _mm512_loadu_si512(low + i));
  }
  const __m512i sums = _mm512_add_epi32(_mm512_slli_epi32(upper_sums, 8), lower_sums);
  _mm512_storeu_si512(lane_sums, _mm512_slli_epi32(sums, 7));
  return true;
}

ROOFBENCH_TARGET_AVX512_VNNI void SumGroups(int64_t k, int64_t group, FixedPoint& x) {
  const __m256i ones = _mm256_set1_epi8(1);
  const auto groups = static_cast<std::size_t>(k / group);
  x.group_sums.resize(groups);
  x.group_floats.resize(groups);
  const int8_t* const high = x.high.data()->values;
  const int8_t* const low = x.low.data()->values;
  int64_t at = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    __m256i upper = _mm256_setzero_si256();
    __m256i lower = _mm256_setzero_si256();
    for (const int64_t end = at + group; at < end; at += 32) {
      upper = _mm256_dpbusd_epi32(upper, ones, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high + at)));
      lower = _mm256_dpbusd_epi32(lower, ones, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + at)));
    }
    const __m256i lanes = _mm256_add_epi32(_mm256_slli_epi32(upper, 8), lower);
    __m128i total = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
    const int32_t sum = _mm_cvtsi128_si32(total);
    x.group_sums[g] = -8 * sum;
    x.group_floats[g] = static_cast<float>(sum);
  }
}

// Sums of products of unsigned bytes with both bytes of x.
struct ByteSums {
  __m512i upper;
  __m512i lower;
};

ROOFBENCH_TARGET_AVX512_VNNI inline void AddLine(ByteSums& sums, __m512i weights, __m512i high, __m512i low) {
  weights = avx512::Unsigned(weights);  // Exact subtracts the offset again
  sums.upper = _mm512_dpbusd_epi32(sums.upper, weights, high);
  sums.lower = _mm512_dpbusd_epi32(sums.lower, weights, low);
}

// Sums of 64 products below 2^22 may wrap around on the way; the result fits, and is therefore exact.
ROOFBENCH_TARGET_AVX512_VNNI inline __m512i Exact(const ByteSums& sums, __m512i lane_sums) {
  return _mm512_sub_epi32(_mm512_add_epi32(_mm512_slli_epi32(sums.upper, 8), sums.lower), lane_sums);
}

// As for bf16 weights, block by block of x.
template <int kRows, int kSums, bool kFetches>
ROOFBENCH_TARGET_AVX512_VNNI inline void DotRows(const Int8Weight& weight, int64_t row, int64_t stride,
                                                 const FixedPoint& x, float* y) {
  const int64_t k = weight.k;
  const int8_t* const w = weight.data + row * k;
  const int8_t* const high = x.high.data()->values;
  const int8_t* const low = x.low.data()->values;
  __m512 totals[kRows];
#pragma GCC unroll 8
  for (__m512& total : totals) total = _mm512_setzero_ps();
  for (int64_t block = 0, begin = 0; begin < k; ++block, begin += FixedPoint::kBlock) {
    const int64_t end = std::min(begin + FixedPoint::kBlock, k);
    ByteSums sums[kRows][kSums];
    avx512::Clear(sums);
    int64_t i = begin;
    for (; i + kSums * kLineBytes <= end; i += kSums * kLineBytes) {
#pragma GCC unroll 8
      for (int s = 0; s < kSums; ++s) {
        const int64_t at = i + s * kLineBytes;
        const __m512i upper = _mm512_load_si512(high + at);
        const __m512i lower = _mm512_load_si512(low + at);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const int8_t* const line = w + r * stride * k + at;
          if constexpr (kFetches) avx512::PrefetchL2(line + kRowAhead);
          AddLine(sums[r][s], _mm512_loadu_si512(line), upper, lower);
        }
      }
    }
    for (; i < end; i += kLineBytes) {
      const __mmask64 mask = avx512::Mask64(end - i);
      const __m512i upper = _mm512_load_si512(high + i);
      const __m512i lower = _mm512_load_si512(low + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        AddLine(sums[r][0], _mm512_maskz_loadu_epi8(mask, w + r * stride * k + i), upper, lower);
      }
    }
    const __m512 scale = _mm512_set1_ps(x.scales[block]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int s = 1; s < kSums; ++s) {
        sums[r][0].upper = _mm512_add_epi32(sums[r][0].upper, sums[r][s].upper);
        sums[r][0].lower = _mm512_add_epi32(sums[r][0].lower, sums[r][s].lower);
      }
      const __m512i exact = Exact(sums[r][0], _mm512_loadu_si512(&x.lane_sums[block * FixedPoint::kLanes]));
      totals[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact), scale, totals[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    y[r * stride] = _mm512_reduce_add_ps(totals[r]) * weight.scales[row + r * stride];
  }
}

// Prefetches nothing, and a line of the next level `ahead` bytes further on.
struct NoFetch {
  void operator()(const std::byte* /*at*/) const {}
};
struct AheadFetch {
  ROOFBENCH_TARGET_AVX512 void operator()(const std::byte* at) const { avx512::PrefetchL2(at + ahead); }
  int64_t ahead;
};

// Multiplies kTiles tiles, `distance` bytes apart, which share the loads of x, with kVectors vectors: 16 rows each,
// summed in lanes of their own. Of a single vector, the halves of a word have sums of their own, which hides the
// latency of a product. kGroup: the weight's group, or 0 for any.
template <int64_t kGroup, int kTiles, int kVectors, typename Fetch>
ROOFBENCH_TARGET_AVX512_VNNI inline void TilesInt4(const std::byte* tile, int64_t distance,
                                                   const FixedPoint* const* vectors, int64_t k, int64_t any_group,
                                                   Fetch fetch, __m512 (&totals)[kTiles][kVectors]) {
  constexpr int kChains = kVectors == 1 ? 2 : 1;
  constexpr int64_t kWords = kGroup == 0 ? 1 : kGroup / 8;  // in a row
  const int64_t group = kGroup == 0 ? any_group : kGroup;
  const __m512i zeros_only = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000));
  const int8_t* high[kVectors];
  const int8_t* low[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    high[v] = vectors[v]->high.data()->values;
    low[v] = vectors[v]->low.data()->values;
  }
  avx512::Clear(totals);
  int64_t at = 0;  // of the groups, and of x
  int64_t column = 0;
  for (int64_t block = 0, begin = 0; begin < k; ++block, begin += FixedPoint::kBlock) {
    __m512 in_block[kTiles][kVectors];
    avx512::Clear(in_block);
    for (const int64_t end = at + std::min(FixedPoint::kBlock, k - begin) / group; at < end; ++at) {
      ByteSums sums[kChains][kTiles][kVectors];
      __m512i scale_zero[kTiles];
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t) {
        // The scale applies to q - 8.
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          sums[0][t][v] = {_mm512_setzero_si512(), _mm512_set1_epi32(vectors[v]->group_sums[at])};
          if constexpr (kChains == 2) sums[1][t][v] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        }
        fetch(tile + t * distance);
        scale_zero[t] = _mm512_loadu_si512(tile + t * distance);
      }
      tile += kLineBytes;
      for (int64_t words = 0; words < group / 8; words += kWords) {
#pragma GCC unroll 16
        for (int64_t word = 0; word < kWords; ++word, tile += kLineBytes, column += 8) {
          __m512i halves[2][kTiles];
          avx512::LoadHalves(tile, distance, fetch, halves);
#pragma GCC unroll 2
          for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) {
              const __m512i of_high = avx512::BroadcastFour(high[v] + column + 4 * half);
              const __m512i of_low = avx512::BroadcastFour(low[v] + column + 4 * half);
#pragma GCC unroll 2
              for (int t = 0; t < kTiles; ++t) {
                ByteSums& sum = sums[half % kChains][t][v];
                avx512::AddDot(sum.upper, halves[half][t], of_high);
                avx512::AddDot(sum.lower, halves[half][t], of_low);
              }
            }
          }
        }
      }
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t) {
        const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(scale_zero[t], 16));
        const __m512 zero = _mm512_castsi512_ps(_mm512_and_si512(scale_zero[t], zeros_only));
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          ByteSums sum = sums[0][t][v];
          if constexpr (kChains == 2) {
            sum = {_mm512_add_epi32(sum.upper, sums[1][t][v].upper), _mm512_add_epi32(sum.lower, sums[1][t][v].lower)};
          }
          const __m512 exact = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(sum.upper, 8), sum.lower));
          in_block[t][v] = _mm512_fmadd_ps(exact, scale, in_block[t][v]);
          in_block[t][v] = _mm512_fmadd_ps(zero, _mm512_set1_ps(vectors[v]->group_floats[at]), in_block[t][v]);
        }
      }
    }
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        totals[t][v] = _mm512_fmadd_ps(in_block[t][v], _mm512_set1_ps(vectors[v]->scales[block]), totals[t][v]);
      }
    }
  }
}

// Tiles from `begin` on, `stride` tiles apart, with the results of their rows; fetch_of(i): what tile i prefetches.
template <int64_t kGroup, int kTiles, int kVectors, typename FetchOf>
ROOFBENCH_TARGET_AVX512_VNNI void TileRows(const Int4Weight& weight, const FixedPoint* const* vectors, float* y,
                                           int64_t y_stride, Range rows, Range tiles, int64_t stride,
                                           FetchOf fetch_of) {
  const int64_t bytes = Int4TileBytes(weight.k, weight.group);
  const std::byte* const first = weight.data + rows.begin / kInt4TileRows * bytes;
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    __m512 totals[kTiles][kVectors];
    TilesInt4<kGroup, kTiles, kVectors>(first + tile * bytes, stride * bytes, vectors, weight.k, weight.group,
                                        fetch_of(tile), totals);
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
      const int64_t row = (tile + t * stride) * kInt4TileRows;
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        _mm512_mask_storeu_ps(y + v * y_stride + row, avx512::Mask16(rows.size() - row), totals[t][v]);
      }
    }
  }
}

// Rows of int8 that meet several vectors at a time.
constexpr int kInt8RowsAtOnce = 4;

// kRows rows of int8 with all vectors.
template <int kRows, int kVectors, bool kFetches>
ROOFBENCH_TARGET_AVX512_VNNI inline void MultiplyInt8(const Int8Weight& weight, int64_t row, int64_t stride,
                                                      const FixedPoint* const* x, float* y, int64_t y_stride,
                                                      int64_t ahead) {
  const int8_t* const first = weight.data + row * weight.k;
  __m512 totals[kRows][kVectors];
  avx512::Clear(totals);
  for (int64_t block = 0, begin = 0; begin < weight.k; ++block, begin += FixedPoint::kBlock) {
    const int64_t end = std::min(begin + FixedPoint::kBlock, weight.k);
    ByteSums sums[kRows][kVectors];
    avx512::Clear(sums);
    for (int64_t i = begin; i < end; i += kLineBytes) {
      __m512i w[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const int8_t* const line = first + r * stride * weight.k + i;
        if constexpr (kFetches) avx512::PrefetchL2(line + ahead);
        w[r] = avx512::Unsigned(_mm512_maskz_loadu_epi8(avx512::Mask64(end - i), line));
      }
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const __m512i high = _mm512_load_si512(x[v]->high.data()->values + i);
        const __m512i low = _mm512_load_si512(x[v]->low.data()->values + i);
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
        const __m512 exact = _mm512_cvtepi32_ps(Exact(sums[r][v], lane_sums));
        totals[r][v] = _mm512_fmadd_ps(exact, scale, totals[r][v]);
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
  constexpr int kRows = kInt8RowsAtOnce;
  const int64_t stride = rows.size() / kRows;
  for (int64_t i = 0; i < stride; ++i) {
    if (i % fetch.shares == fetch.share) {
      MultiplyInt8<kRows, kVectors, true>(weight, rows.begin + i, stride, x, y + i, y_stride, fetch.ahead);
    } else {
      MultiplyInt8<kRows, kVectors, false>(weight, rows.begin + i, stride, x, y + i, y_stride, 0);
    }
  }
}

// Tiles of int4 by two, which share the broadcasts of x: with one, those would take twice the time of the products.
template <int kVectors>
void RowsOf(const Int4Weight& weight, const FixedPoint* const* x, float* y, int64_t y_stride, Range rows,
            const FetchPlan& fetch) {
  const int64_t tiles = Int4Tiles(rows.size());
  const int64_t stride = tiles / 2;
  // The own line where it is another share's turn.
  const auto in_turn = [&](int64_t tile) { return AheadFetch{tile % fetch.shares == fetch.share ? fetch.ahead : 0}; };
  TileRows<0, 2, kVectors>(weight, x, y, y_stride, rows, {0, stride}, stride, in_turn);
  TileRows<0, 1, kVectors>(weight, x, y, y_stride, rows, {2 * stride, tiles}, 1, in_turn);
}

// All rows, each with the same order of additions for every number of streams.
template <int kStreams>
ROOFBENCH_TARGET_AVX512_BF16 void StreamRows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  constexpr bool kFetches = kStreams == kRowStreams;
  const int64_t in_streams = rows.size() / kRowStreams * kRowStreams;
  const int64_t stride = in_streams / kStreams;
  for (int64_t i = 0; i < stride; ++i) DotRows<kStreams, 1, kFetches>(weight, rows.begin + i, stride, x, y + i);
  for (int64_t i = in_streams; i < rows.size(); ++i) DotRows<1, 8, kFetches>(weight, rows.begin + i, 1, x, y + i);
}

template <int kStreams>
ROOFBENCH_TARGET_AVX512_VNNI void StreamRows(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows) {
  constexpr bool kFetches = kStreams == kRowStreams;
  const int64_t in_streams = rows.size() / kRowStreams * kRowStreams;
  const int64_t stride = in_streams / kStreams;
  for (int64_t i = 0; i < stride; ++i) DotRows<kStreams, 1, kFetches>(weight, rows.begin + i, stride, x, y + i);
  for (int64_t i = in_streams; i < rows.size(); ++i) DotRows<1, 4, kFetches>(weight, rows.begin + i, 1, x, y + i);
}

template <int kStreams, int64_t kGroup>
void StreamTiles(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows) {
  const int64_t tiles = Int4Tiles(rows.size());
  const int64_t stride = tiles / kStreams;
  const FixedPoint* const vector = &x;
  const auto in_order = [](int64_t) { return avx512::StreamFetch(); };
  if constexpr (kStreams == 1) return TileRows<kGroup, 1, 1>(weight, &vector, y, 0, rows, {0, tiles}, 1, in_order);
  TileRows<kGroup, kStreams, 1>(weight, &vector, y, 0, rows, {0, stride}, stride, [](int64_t) { return NoFetch(); });
  TileRows<kGroup, 1, 1>(weight, &vector, y, 0, rows, {stride * kStreams, tiles}, 1, in_order);
}

template <int kStreams>
void StreamRows(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows) {
  switch (weight.group) {
    case 32:
      return StreamTiles<kStreams, 32>(weight, x, y, rows);
    case 64:
      return StreamTiles<kStreams, 64>(weight, x, y, rows);
    case 128:
      return StreamTiles<kStreams, 128>(weight, x, y, rows);
    default:
      return StreamTiles<kStreams, 256>(weight, x, y, rows);
  }
}

}  // namespace

void Avx512Rows(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  StreamRows<kRowStreams>(weight, x, y, rows);
}
void Avx512FewStreams(const Bf16Weight& weight, const Bf16* x, float* y, Range rows) {
  // What a cache may still hold arrives faster than two sums add it up: 8 MiB in the third level took 46 us instead of
  // 41 (two-core EPYC, Zen 5, 2026-11-26).
  constexpr int64_t kMostCached = int64_t{8} << 20;
  if (weight.n * weight.k < kMostCached) return StreamRows<2 * kFewRowStreams>(weight, x, y, rows);
  StreamRows<kFewRowStreams>(weight, x, y, rows);
}

ROOFBENCH_TARGET_AVX512_VNNI bool Avx512Convert(const Bf16* x, int64_t k, int64_t group, FixedPoint& to) {
  constexpr int64_t kBlock = FixedPoint::kBlock;
  const int64_t blocks = CeilDiv(k, kBlock);
  const auto lines = static_cast<std::size_t>(blocks * kBlock / kLineBytes);
  to.high.resize(lines);
  to.low.resize(lines);
  to.scales.resize(static_cast<std::size_t>(blocks));
  to.lane_sums.resize(static_cast<std::size_t>(blocks * FixedPoint::kLanes));
  Bf16 last[kBlock];
  for (int64_t block = 0; block < blocks; ++block) {
    const Bf16* from = x + block * kBlock;
    if (const int64_t left = k - block * kBlock; left < kBlock) {
      std::fill(std::copy_n(from, left, last), last + kBlock, Bf16{});
      from = last;
    }
    if (!ConvertBlock(from, to.high.data()->values + block * kBlock, to.low.data()->values + block * kBlock,
                      to.scales[block], &to.lane_sums[block * FixedPoint::kLanes])) {
      return false;
    }
  }
  if (group > 0) SumGroups(k, group, to);
  return true;
}

void Avx512Rows(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows) {
  StreamRows<kRowStreams>(weight, x, y, rows);
}
void Avx512FewStreams(const Int8Weight& weight, const FixedPoint& x, float* y, Range rows) {
  StreamRows<kFewRowStreams>(weight, x, y, rows);
}

void Avx512Rows(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows) {
  StreamRows<1>(weight, x, y, rows);
}
void Avx512FewStreams(const Int4Weight& weight, const FixedPoint& x, float* y, Range rows) {
  StreamRows<kFewRowStreams>(weight, x, y, rows);
}

void Avx512Vectors(const Int8Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch) {
  using Kernel = void (*)(const Int8Weight&, const FixedPoint* const*, float*, int64_t, Range, const FetchPlan&);
  constexpr Kernel kVariants[kMostVectors<Int8Weight> - 1] = {RowsOf<2>, RowsOf<3>};
  // Sums are exact, so their order does not matter.
  const int64_t in_tiles = rows.size() / kInt8RowsAtOnce * kInt8RowsAtOnce;
  kVariants[vectors - 2](weight, x, y, y_stride, {rows.begin, rows.begin + in_tiles}, fetch);
  for (int64_t v = 0; v < vectors; ++v) {
    Avx512Rows(weight, *x[v], y + v * y_stride + in_tiles, Range{rows.begin + in_tiles, rows.end});
  }
}

void Avx512Vectors(const Int4Weight& weight, const FixedPoint* const* x, int64_t vectors, float* y, int64_t y_stride,
                   Range rows, const FetchPlan& fetch) {
  using Kernel = void (*)(const Int4Weight&, const FixedPoint* const*, float*, int64_t, Range, const FetchPlan&);
  constexpr Kernel kVariants[kMostVectors<Int4Weight> - 1] = {RowsOf<2>, RowsOf<3>, RowsOf<4>};
  kVariants[vectors - 2](weight, x, y, y_stride, rows, fetch);
}

}  // namespace roofbench::kernels

#endif
