// SPDX-License-Identifier: Apache-2.0
// bf16 attention with AVX-512 dot products: a word is two bf16.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/kernels/operators/attention/attention_tiles.h"
#include "lib/kernels/operators/attention/attention_variant.h"
#include "lib/kernels/simd/avx512.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kPerWord = 2;
constexpr int64_t kRows = 4;
constexpr int64_t kLanes = kVectorWords;

// Rows of words; an odd last element has a word to itself.
ROOFBENCH_TARGET_AVX512 void PackQueries(const Bf16* from, int64_t stride, int64_t count, int64_t dim, int64_t depth,
                                         float* to) {
  constexpr int64_t kLine = kPerWord * kLanes;
  for (int64_t row = 0; row < count; ++row, from += stride, to += depth) {
    for (int64_t i = 0; i < dim; i += kLine) {
      const int64_t some = std::min(kLine, dim - i);
      const __m512i line = some == kLine ? LoadLine(from + i) : LoadFirst(from + i, some);
      _mm512_mask_storeu_epi32(to + i / kPerWord, Mask16((some + 1) / kPerWord), line);
    }
  }
}

ROOFBENCH_TARGET_AVX512 void PackKeys(const Bf16* from, int64_t stride, int64_t count, int64_t dim, int64_t depth,
                                      float* to) {
  constexpr int64_t kLine = kPerWord * kLanes;
  for (int64_t key = 0; key < kPanel; key += kLanes) {
    for (int64_t i = 0; i < dim; i += kLine) {
      const int64_t some = std::min(kLine, dim - i);
      __m512i x[16];
#pragma GCC unroll 16
      for (int64_t row = 0; row < kLanes; ++row) {
        const Bf16* const at = from + (key + row) * stride + i;
        x[row] = key + row >= count ? _mm512_setzero_si512() : some == kLine ? LoadLine(at) : LoadFirst(at, some);
      }
      Transpose(x);
      for (int64_t word = 0; word < std::min(kLanes, depth - i / kPerWord); ++word) {
        _mm512_storeu_si512(to + (i / kPerWord + word) * kPanel + key, x[word]);
      }
    }
  }
}

ROOFBENCH_TARGET_AVX512 inline __m512i Sixteen(const Bf16* from, int64_t count) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(Mask16(count), from));
}

ROOFBENCH_TARGET_AVX512 void PackValues(const Bf16* from, int64_t stride, int64_t count, int64_t columns, float* to) {
  for (int64_t key = 0; key < kPanel; key += kPerWord) {
    for (int64_t i = 0; i < columns; i += kLanes, to += kLanes) {
      const Bf16* const at = from + key * stride + i;
      const __m512i low = key < count ? Sixteen(at, columns - i) : _mm512_setzero_si512();
      const __m512i high = key + 1 < count ? Sixteen(at + stride, columns - i) : _mm512_setzero_si512();
      _mm512_storeu_si512(to, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

template <int kVectors>
ROOFBENCH_TARGET_AVX512_BF16 void ProductOf(const PanelProduct& panel) {
  float* const c = panel.c.data;  // the compiler otherwise assumes that it aliases the panel
  const int64_t c_stride = panel.c.stride;
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = panel.add ? _mm512_loadu_ps(c + i * c_stride + v * kLanes) : _mm512_setzero_ps();
    }
  }
  const float* a = panel.a.data;
  const float* b = panel.b.data;
  const int64_t stride = panel.a.stride;
  for (int64_t step = 0; step < panel.steps; ++step, ++a, b += panel.b.stride) {
    __m512i right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + v * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const __m512i left = _mm512_castps_si512(_mm512_set1_ps(a[i * stride]));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = PlusDot(sums[i][v], left, right[v]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + i * c_stride + v * kLanes, sums[i][v]);
  }
}

void Product(const PanelProduct& panel) {
  constexpr void (*kProducts[])(const PanelProduct&) = {ProductOf<1>, ProductOf<2>, ProductOf<3>, ProductOf<4>};
  kProducts[panel.vectors - 1](panel);
}

ROOFBENCH_TARGET_AVX512 inline __m512 LoadSeen(const float* scores, int64_t count) {
  const __m512 none = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  return _mm512_mask_loadu_ps(none, Mask16(count), scores);
}

// Powers of two: the logarithm's base is folded into the scale.
ROOFBENCH_TARGET_AVX512_BF16 void Weigh(const ScoreRow& row) {
  constexpr int64_t kPair = 2 * kLanes;
  const float scale = row.scale * kLog2E;
  __m512 most[2] = {LoadSeen(row.scores, row.seen), LoadSeen(row.scores + kLanes, row.seen - kLanes)};
  int64_t i = kPair;
  for (; i + kPair <= row.seen; i += kPair) {
    for (int v = 0; v < 2; ++v) most[v] = _mm512_max_ps(most[v], _mm512_loadu_ps(row.scores + i + v * kLanes));
  }
  for (; i < row.seen; i += kLanes) most[0] = _mm512_max_ps(most[0], LoadSeen(row.scores + i, row.seen - i));
  const float now = _mm512_reduce_max_ps(_mm512_max_ps(most[0], most[1])) * scale;
  if (now > *row.largest) {
    const float shrink = std::exp2(*row.largest - now);
    const __m512 factor = _mm512_set1_ps(shrink);
    for (int64_t j = 0; j < row.width; j += kLanes) {
      _mm512_storeu_ps(row.sum + j, _mm512_mul_ps(_mm512_loadu_ps(row.sum + j), factor));
    }
    *row.weight *= shrink;
    *row.largest = now;
  }
  const __m512 scales = _mm512_set1_ps(scale);
  // Where every score so far is -infinity, the weights are zero and not NaN.
  const bool none = *row.largest == -std::numeric_limits<float>::infinity();
  const __m512 largest = _mm512_set1_ps(none ? 0 : *row.largest);
  __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  auto* const weights = reinterpret_cast<Bf16*>(row.scores);
  const auto weigh = [&](__m512(&x)[2], int64_t at) ROOFBENCH_TARGET_AVX512_BF16 {
    for (int v = 0; v < 2; ++v) x[v] = _mm512_fmsub_ps(x[v], scales, largest);
    Exp2<Bf16>(x);
    for (int v = 0; v < 2; ++v) sums[v] = _mm512_add_ps(sums[v], x[v]);
    _mm512_storeu_si512(weights + at, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x[1], x[0])));
  };
  for (i = 0; i + kPair <= row.seen; i += kPair) {
    __m512 x[2] = {_mm512_loadu_ps(row.scores + i), _mm512_loadu_ps(row.scores + i + kLanes)};
    weigh(x, i);
  }
  for (; i < row.until; i += kPair) {
    __m512 x[2] = {LoadSeen(row.scores + i, row.seen - i), LoadSeen(row.scores + i + kLanes, row.seen - i - kLanes)};
    weigh(x, i);
  }
  *row.weight += _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
}

ROOFBENCH_TARGET_AVX512_BF16 void Finish(const float* sum, float scale, int64_t dim, Bf16* y) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < dim; i += kLanes) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_loadu_ps(sum + i), factor));
    _mm256_mask_storeu_epi16(y + i, Mask16(dim - i), reinterpret_cast<__m256i>(rounded));
  }
}

// The gradient's queries at a time: a vector of words.
constexpr int64_t kStep = 2 * kLanes;

// Lanes of queries from `at` on that lie in [first, end).
ROOFBENCH_TARGET_AVX512 inline __mmask16 Seen(int64_t at, int64_t first, int64_t end) {
  return static_cast<__mmask16>(Mask16(end - at) & ~Mask16(first - at));
}

// Computes the weights and ds of queries from `at` on; `kMasked` is false where all of them see all keys.
template <bool kMasked>
ROOFBENCH_TARGET_AVX512_BF16 inline void Step(const GradientRows& rows, int64_t at, __m512 scale, __m512i alternate) {
  const __m512 log2_e = _mm512_set1_ps(kLog2E);
  const auto load = [&](const float* from, int64_t half) ROOFBENCH_TARGET_AVX512_BF16 {
    const int64_t first = at + half * kLanes;
    if constexpr (!kMasked) return _mm512_loadu_ps(from + first);
    return _mm512_maskz_loadu_ps(Seen(first, 0, rows.end), from + first);
  };
  const __m512 logs[2] = {_mm512_mul_ps(load(rows.log_sum_exp, 0), log2_e),
                          _mm512_mul_ps(load(rows.log_sum_exp, 1), log2_e)};
  const __m512 corrections[2] = {load(rows.corrections, 0), load(rows.corrections, 1)};
  const auto keep = [&](__m512& x, int64_t v) ROOFBENCH_TARGET_AVX512_BF16 {
    if constexpr (kMasked) x = _mm512_maskz_mov_ps(Seen(at + v % 2 * kLanes, rows.first[v / 2], rows.end), x);
  };
  __m512 p[4];  // of the first key, of the second one
  __m512 ds[4];
  ROOFBENCH_EACH_OF(4) {
    const float* const scores = rows.scores + v / 2 * rows.stride + at + v % 2 * kLanes;
    p[v] = _mm512_fmsub_ps(_mm512_loadu_ps(scores), scale, logs[v % 2]);
  }
  Exp2<Bf16>(p);
  ROOFBENCH_EACH_OF(4) {
    const float* const products = rows.products + v / 2 * rows.stride + at + v % 2 * kLanes;
    ds[v] = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(products), corrections[v % 2]), p[v]);
    keep(p[v], v);
    keep(ds[v], v);
  }
  ROOFBENCH_EACH_OF(2) {
    const auto words = [&](float* of) { return of + v * rows.stride + at / 2; };
    _mm512_storeu_si512(words(rows.scores), reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(p[2 * v + 1], p[2 * v])));
    _mm512_storeu_si512(words(rows.products), reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(ds[2 * v + 1], ds[2 * v])));
    const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(ds[v + 2], ds[v]));
    _mm512_storeu_si512(rows.pairs + at + v * kLanes, _mm512_permutexvar_epi16(alternate, both));
  }
}

ROOFBENCH_TARGET_AVX512_BF16 void WeighGradient(const GradientRows& rows) {
  const __m512 scale = _mm512_set1_ps(rows.scale * kLog2E);
  const __m512i alternate = Alternate();
  const int64_t seen_by_all = rows.first[1];
  for (int64_t at = rows.begin; at < rows.until; at += kStep) {
    if (at < seen_by_all || at + kStep > rows.end) {
      Step<true>(rows, at, scale, alternate);
    } else {
      Step<false>(rows, at, scale, alternate);
    }
  }
}

ROOFBENCH_TARGET_AVX512_BF16 float Dot(const Bf16* a, const Bf16* b, int64_t n) {
  constexpr int64_t kLine = kPerLine<Bf16>;
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < n; i += kLine) {
    const bool whole = n - i >= kLine;
    const __m512i x = whole ? LoadLine(a + i) : LoadFirst(a + i, n - i);
    const __m512i y = whole ? LoadLine(b + i) : LoadFirst(b + i, n - i);
    sum = PlusDot(sum, x, y);
  }
  return _mm512_reduce_add_ps(sum);
}

}  // namespace

const AttentionVariant<Bf16>& Bf16AttentionVariant() {
  static constexpr AttentionVariant<Bf16> kVariant = {.per_word = kPerWord,
                                                      .rows_at_once = kRows,
                                                      .steps_at_once = 1,
                                                      .log_base = 1 / kLog2E,
                                                      .pack_queries = PackQueries,
                                                      .pack_keys = PackKeys,
                                                      .pack_values = PackValues,
                                                      .product = Product,
                                                      .weigh = Weigh,
                                                      .finish = Finish,
                                                      .weigh_gradient = WeighGradient,
                                                      .dot = Dot};
  return kVariant;
}

const AttentionVariant<Bf16>& AmxBf16AttentionVariant() {
  static const AttentionVariant<Bf16> kVariant = TiledAttentionVariant<HardwareTiles>();
  return kVariant;
}

}  // namespace roofbench::kernels::avx512
#endif
