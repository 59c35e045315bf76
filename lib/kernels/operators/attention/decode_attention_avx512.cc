// SPDX-License-Identifier: Apache-2.0
// Decode attention in bf16 by dot products: scores take pairs of elements of a head, sums of values pairs of keys.
// Queries and weights are rounded to bf16; the sum of weights is that of the rounded ones.
#include "lib/kernels/operators/attention/decode_attention_avx512.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kLine = kPerLine<Bf16>;

ROOFBENCH_TARGET_AVX512_BF16 void Prepare(DecodeState<Bf16>& state, int64_t g, const float* q, float scale) {
  auto* const to = reinterpret_cast<Bf16*>(state.queries[g]);
  const __m512 s = _mm512_set1_ps(scale);
  for (int64_t i = 0; i < state.dim; i += kLine) {
    const __m512 low = _mm512_mul_ps(_mm512_loadu_ps(q + i), s);
    const __m512 high = _mm512_mul_ps(_mm512_loadu_ps(q + i + kLine / 2), s);
    _mm512_store_si512(to + i, Pack(Floats<Bf16>{{low, high}}));
  }
}

ROOFBENCH_TARGET_AVX512_BF16 inline __m512 Dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

template <int64_t kGroup, bool kFetch>
ROOFBENCH_TARGET_AVX512_BF16 void ScoreSome(DecodeState<Bf16>& state, const KeyBlock<Bf16>& block, int64_t g) {
  constexpr int64_t kKeys = kKeyLanes / kGroup;
  FetchedLines ahead(block.keys_soon, block.values, state.dim);
  for (int64_t first = 0; first < block.count; first += kKeys) {
    const Bf16* const keys = RowAt(block.keys, first, state.dim);
    __m512 sums[kKeyLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kKeyLanes; ++i) sums[i] = _mm512_setzero_ps();
    for (int64_t i = 0; i < state.dim; i += kLine) {
      __m512i queries[kGroup];
#pragma GCC unroll 4
      for (int64_t member = 0; member < kGroup; ++member) {
        queries[member] = _mm512_load_si512(reinterpret_cast<const Bf16*>(state.queries[g + member]) + i);
      }
      if constexpr (kFetch) ahead.Fetch<kKeys>();
#pragma GCC unroll 16
      for (int64_t j = 0; j < kKeys; ++j) {
        const __m512i line = _mm512_loadu_si512(keys + j * state.dim + i);
#pragma GCC unroll 4
        for (int64_t member = 0; member < kGroup; ++member) {
          __m512& sum = sums[member * kKeys + j];
          sum = Dot(sum, queries[member], line);
        }
      }
    }
    StoreScores<kGroup>(SumEach<__m512>(sums), state, g, first);
  }
}

void Score(DecodeState<Bf16>& state, const KeyBlock<Bf16>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) { ScoreSome<kGroup, kFirst>(state, block, g); });
}

ROOFBENCH_TARGET_AVX512_BF16 void Soften(DecodeState<Bf16>& state, int64_t g, const KeyBlock<Bf16>& block) {
  TakeLargest(state, g, block.count);
  const __m512 largest = _mm512_set1_ps(state.largest[g]);
  auto* const weights = reinterpret_cast<Bf16*>(state.weights[g]);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < block.count; j += kLine) {
    __m512 exponentials[2];
    for (int64_t half = 0; half < 2; ++half) {
      exponentials[half] = _mm512_sub_ps(_mm512_load_ps(state.scores[g] + j + half * kKeyLanes), largest);
    }
    Exp<Bf16>(exponentials);
    const __mmask16 second = j + kKeyLanes < block.count ? KeysThere(block.count, j + kKeyLanes) : __mmask16{0};
    const __m512i rounded = Pack(Floats<Bf16>{{_mm512_maskz_mov_ps(KeysThere(block.count, j), exponentials[0]),
                                               _mm512_maskz_mov_ps(second, exponentials[1])}});
    _mm512_store_si512(weights + j, rounded);
    const Floats<Bf16> taken = Unpack(weights, rounded);
    sum = _mm512_add_ps(sum, _mm512_add_ps(taken.v[0], taken.v[1]));
  }
  state.weight_sums[g] += _mm512_reduce_add_ps(sum);
}

// kLines lines of the values of all keys for kGroup query heads. Those of two keys, one element of each by turns, are
// what a pair of weights is multiplied with.
template <int64_t kGroup, int64_t kLines, bool kFetch>
ROOFBENCH_TARGET_AVX512_BF16 void WeighColumns(DecodeState<Bf16>& state, const KeyBlock<Bf16>& block, int64_t g,
                                               int64_t column, FetchedLines& fetched) {
  FetchedLines ahead = fetched;
  constexpr int64_t kHalves = 2 * kLines;
  __m512 sums[kGroup][kHalves];
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kHalves; ++v) sums[member][v] = _mm512_load_ps(state.sums[g + member] + column + v * 16);
  }
  for (int64_t j = 0; j < block.count; j += 2) {
    const Bf16* const values = RowAt(block.values, j, state.dim) + column;
    __m512i pairs[kHalves];
#pragma GCC unroll 2
    for (int64_t line = 0; line < kLines; ++line) {
      const __m512i first = _mm512_loadu_si512(values + line * kLine);
      const __m512i second = _mm512_loadu_si512(values + state.dim + line * kLine);
      pairs[2 * line] = _mm512_unpacklo_epi16(first, second);
      pairs[2 * line + 1] = _mm512_unpackhi_epi16(first, second);
    }
    if constexpr (kFetch) ahead.Fetch<2 * kLines>();
#pragma GCC unroll 4
    for (int64_t member = 0; member < kGroup; ++member) {
      const auto* const weights = reinterpret_cast<const int32_t*>(state.weights[g + member]);
      const __m512i weight = _mm512_set1_epi32(weights[j / 2]);
#pragma GCC unroll 4
      for (int64_t v = 0; v < kHalves; ++v) sums[member][v] = Dot(sums[member][v], pairs[v], weight);
    }
  }
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kHalves; ++v) _mm512_store_ps(state.sums[g + member] + column + v * 16, sums[member][v]);
  }
  fetched = ahead;
}

void Weigh(DecodeState<Bf16>& state, const KeyBlock<Bf16>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) {
    FetchedLines ahead(block.values_soon, block.next_keys, state.dim);
    int64_t column = 0;
    for (; column + 2 * kLine <= state.dim; column += 2 * kLine) {
      WeighColumns<kGroup, 2, kFirst>(state, block, g, column, ahead);
    }
    if (column < state.dim) WeighColumns<kGroup, 1, kFirst>(state, block, g, column, ahead);
  });
}

// Unpacking takes four elements of each 128 bits for its lower result, four for its upper one.
int64_t Place(int64_t column) {
  const int64_t in_line = column % kLine;
  return column - in_line + in_line / 4 % 2 * 16 + in_line / 8 * 4 + in_line % 4;
}

constexpr DecodeVariant<Bf16> kVariant = {
    .prepare = Prepare, .score = Score, .soften = Soften, .weigh = Weigh, .place = Place};

}  // namespace

const DecodeVariant<Bf16>& Bf16DecodeVariant() { return kVariant; }

}  // namespace roofbench::kernels::avx512
#endif
