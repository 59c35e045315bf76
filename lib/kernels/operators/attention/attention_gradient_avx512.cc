// SPDX-License-Identifier: Apache-2.0
// The gradient of bf16 attention with AVX-512: a word is two bf16, so two keys go at a time.
#include "lib/kernels/operators/attention/attention_gradient_variant.h"
#include "lib/kernels/simd/avx512_exp.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kRows = 2;
constexpr int64_t kLanes = kVectorWords;
constexpr int64_t kStep = 2 * kLanes;  // queries at a time: a vector of words

// Lanes of queries from `at` on that lie in [first, end).
ROOFBENCH_TARGET_AVX512 inline __mmask16 Seen(int64_t at, int64_t first, int64_t end) {
  const auto upto = [&](int64_t bound) -> uint32_t {
    if (bound <= at) return 0;
    return bound >= at + kLanes ? 0xffff : Mask16(bound - at);
  };
  return static_cast<__mmask16>(upto(end) & ~upto(first));
}

// Queries from `at` on; where all keys are seen by all of them, `kMasked` is false.
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

ROOFBENCH_TARGET_AVX512_BF16 void Weigh(const GradientRows& rows) {
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
    sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
  }
  return _mm512_reduce_add_ps(sum);
}

}  // namespace

const AttentionGradientVariant<Bf16>& Bf16AttentionGradientVariant() {
  static constexpr AttentionGradientVariant<Bf16> kVariant = {
      .forward = Bf16AttentionVariant, .weigh = Weigh, .dot = Dot};
  return kVariant;
}

}  // namespace roofbench::kernels::avx512
#endif
