// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/decode_attention_avx512.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/simd/avx512_exp.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kKeys = 16;      // scores of as many keys are one vector
constexpr int64_t kVector = 32;    // bf16 in a vector
constexpr int64_t kBlock = 128;    // keys between two looks at the maximum: K and V of a block stay in the L1
constexpr int64_t kMostGroup = 8;  // query heads at once; larger groups take several turns
constexpr int64_t kMostVectors = kMostHeadDim / kVector;

// Lane i of the result is the sum of the lanes of v[i].
ROOFBENCH_TARGET_AVX512 inline __m512 SumEach(__m512* v) {
  // Four rounds of adding neighbours halve the vectors; the first two work within 128-bit lanes.
  for (int64_t i = 0; i < 8; ++i) {
    v[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
  }
  for (int64_t i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(v[2 * i]);
    const __m512d b = _mm512_castps_pd(v[2 * i + 1]);
    v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  // Now lane 4l + j of v[i] is what 128-bit lane l has of the sum 4i + j.
  const __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x88), _mm512_shuffle_f32x4(v[0], v[1], 0xdd));
  const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x88), _mm512_shuffle_f32x4(v[2], v[3], 0xdd));
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

struct Query {
  __m512bh line[kMostVectors];
};

ROOFBENCH_TARGET_AVX512_BF16 inline void LoadQuery(const float* q, int64_t vectors, float scale, Query& query) {
  const __m512 s = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < vectors; ++i) {
    const __m512 low = _mm512_mul_ps(_mm512_loadu_ps(q + i * kVector), s);
    const __m512 high = _mm512_mul_ps(_mm512_loadu_ps(q + i * kVector + kVector / 2), s);
    query.line[i] = _mm512_cvtne2ps_pbh(high, low);
  }
}

// scores[g][j] = query g · key j for `count` keys, -infinity behind them up to a multiple of 16.
ROOFBENCH_TARGET_AVX512_BF16 void Score(const Query* queries, int64_t group, const Bf16* keys, int64_t count,
                                        int64_t vectors, float (*scores)[kBlock]) {
  const int64_t dim = vectors * kVector;
  for (int64_t first = 0; first < count; first += kKeys) {
    const int64_t some = std::min(kKeys, count - first);
    for (int64_t g = 0; g < group; ++g) {
      __m512 sums[kKeys];
      for (int64_t j = 0; j < kKeys; ++j) {
        const Bf16* const key = keys + (first + std::min(j, some - 1)) * dim;
        __m512 sum = _mm512_setzero_ps();
        for (int64_t i = 0; i < vectors; ++i) {
          const __m512i line = _mm512_loadu_si512(key + i * kVector);
          sum = _mm512_dpbf16_ps(sum, queries[g].line[i], reinterpret_cast<__m512bh>(line));
        }
        sums[j] = sum;
      }
      const __mmask16 there = static_cast<__mmask16>((1U << some) - 1);
      const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
      _mm512_storeu_ps(scores[g] + first, _mm512_mask_mov_ps(none, there, SumEach(sums)));
    }
  }
}

// sums[g] += Σ weights[g][j] · value j, 16 columns of all query heads at a time.
template <int64_t kGroup>
ROOFBENCH_TARGET_AVX512 void Weigh(const Bf16* values, int64_t count, int64_t dim, const float (*weights)[kBlock],
                                   float (*sums)[kMostHeadDim]) {
  for (int64_t column = 0; column < dim; column += kVector) {
    __m512 low[kGroup];
    __m512 high[kGroup];
    for (int64_t g = 0; g < kGroup; ++g) {
      low[g] = _mm512_loadu_ps(sums[g] + column);
      high[g] = _mm512_loadu_ps(sums[g] + column + kVector / 2);
    }
    for (int64_t j = 0; j < count; ++j) {
      const __m512i line = _mm512_loadu_si512(values + j * dim + column);
      const __m512 first = Widen(_mm512_castsi512_si256(line));
      const __m512 second = Widen(_mm512_extracti64x4_epi64(line, 1));
      for (int64_t g = 0; g < kGroup; ++g) {
        const __m512 weight = _mm512_set1_ps(weights[g][j]);
        low[g] = _mm512_fmadd_ps(weight, first, low[g]);
        high[g] = _mm512_fmadd_ps(weight, second, high[g]);
      }
    }
    for (int64_t g = 0; g < kGroup; ++g) {
      _mm512_storeu_ps(sums[g] + column, low[g]);
      _mm512_storeu_ps(sums[g] + column + kVector / 2, high[g]);
    }
  }
}

using WeighFunction = void (*)(const Bf16*, int64_t, int64_t, const float (*)[kBlock], float (*)[kMostHeadDim]);
constexpr WeighFunction kWeigh[] = {Weigh<1>, Weigh<2>, Weigh<3>, Weigh<4>, Weigh<5>, Weigh<6>, Weigh<7>, Weigh<8>};

// Of the group of `head`, up to kMostGroup query heads from `member` on against some keys.
ROOFBENCH_TARGET_AVX512_BF16 void AttendSome(const DecodeAttention<Bf16>& work, int64_t head, Range range,
                                             int64_t member, int64_t group, AttendedPart to) {
  const int64_t dim = work.head_dim;
  const int64_t vectors = dim / kVector;
  const Bf16* const keys = work.keys + head * work.head_stride;
  const Bf16* const values = work.values + head * work.head_stride;
  Query queries[kMostGroup];
  float largest[kMostGroup];
  float weight_sums[kMostGroup] = {};
  float sums[kMostGroup][kMostHeadDim];
  float scores[kMostGroup][kBlock];
  for (int64_t g = 0; g < group; ++g) {
    LoadQuery(work.q + (head * work.group + member + g) * dim, vectors, 1 / std::sqrt(static_cast<float>(dim)),
              queries[g]);
    largest[g] = -std::numeric_limits<float>::infinity();
    std::fill_n(sums[g], dim, 0.0F);
  }
  for (int64_t from = range.begin; from < range.end; from += kBlock) {
    const int64_t count = std::min(kBlock, range.end - from);
    Score(queries, group, keys + from * dim, count, vectors, scores);
    for (int64_t g = 0; g < group; ++g) {
      __m512 most = _mm512_set1_ps(largest[g]);
      for (int64_t j = 0; j < count; j += kKeys) most = _mm512_max_ps(most, _mm512_loadu_ps(scores[g] + j));
      const float now = _mm512_reduce_max_ps(most);  // no less than before
      if (now > largest[g]) {
        const float shrink = std::exp(largest[g] - now);
        for (int64_t i = 0; i < dim; i += kKeys) {
          _mm512_storeu_ps(sums[g] + i, _mm512_mul_ps(_mm512_loadu_ps(sums[g] + i), _mm512_set1_ps(shrink)));
        }
        weight_sums[g] *= shrink;
        largest[g] = now;
      }
      __m512 sum = _mm512_setzero_ps();
      for (int64_t j = 0; j < count; j += kKeys) {
        const __m512 score = _mm512_loadu_ps(scores[g] + j);
        const __m512 low = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
        const __mmask16 there = _mm512_cmp_ps_mask(score, low, _CMP_NEQ_UQ);
        __m512 exponential[] = {_mm512_sub_ps(score, _mm512_set1_ps(now))};
        Exp<float>(exponential);
        const __m512 weight = _mm512_maskz_mov_ps(there, exponential[0]);
        _mm512_storeu_ps(scores[g] + j, weight);
        sum = _mm512_add_ps(sum, weight);
      }
      weight_sums[g] += _mm512_reduce_add_ps(sum);
    }
    kWeigh[group - 1](values + from * dim, count, dim, scores, sums);
  }
  for (int64_t g = 0; g < group; ++g) {
    for (int64_t i = 0; i < dim; ++i) to.y[(member + g) * dim + i] = sums[g][i] / weight_sums[g];
    if (to.weight != nullptr) to.weight[member + g] = largest[g] + std::log(weight_sums[g]);
  }
}

}  // namespace

void AttendKeys(const DecodeAttention<Bf16>& work, int64_t head, Range keys, AttendedPart to) {
  for (int64_t done = 0; done < work.group; done += kMostGroup) {
    AttendSome(work, head, keys, done, std::min(kMostGroup, work.group - done), to);
  }
}

}  // namespace roofbench::kernels::avx512
#endif
