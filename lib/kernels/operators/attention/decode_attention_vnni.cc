// SPDX-License-Identifier: Apache-2.0
// Decode attention over int8 caches by dot products of integers.
//
// A query becomes integers of 16 bits, which keys widened to 16 bits are multiplied by. A block's weights, with the
// factors of its values in them, become integers of 16 bits, 256 · high + low, each half without a sign, as products of
// bytes want them. So nothing is rounded more coarsely than 2^-15 of the largest element. Sums of integers are exact:
// 256 elements of a head, or 128 keys of a block, stay below 2^31.
#include "lib/kernels/operators/attention/decode_attention_avx512.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kHalfLine = kLine / 2;
constexpr int32_t kQuerySteps = 32767;
constexpr int32_t kWeightSteps = 65535;
static_assert(kMostHeadDim * 128 * kQuerySteps < int64_t{1} << 31);
static_assert(kKeyBlock * 128 * kWeightSteps < int64_t{1} << 31);

const int16_t* QueryOf(const DecodeState<int8_t>& state, int64_t g) {
  return reinterpret_cast<const int16_t*>(state.queries[g]);
}

// Both halves of the weights of a query head.
struct Halves {
  uint8_t* high;
  uint8_t* low;
};
Halves WeightsOf(DecodeState<int8_t>& state, int64_t g) {
  auto* const bytes = reinterpret_cast<uint8_t*>(state.weights[g]);
  return {bytes, bytes + kKeyBlock};
}

void Prepare(DecodeState<int8_t>& state, int64_t g, const float* q, float scale) {
  float largest = 0;
  float sum_of_sizes = 0;  // no number if any element is none
  for (int64_t i = 0; i < state.dim; ++i) {
    largest = std::max(largest, std::abs(q[i]));
    sum_of_sizes += std::abs(q[i]);
  }
  const bool finite = std::isfinite(sum_of_sizes);
  const float step = largest / kQuerySteps;
  auto* const to = reinterpret_cast<int16_t*>(state.queries[g]);
  for (int64_t i = 0; i < state.dim; ++i) {
    const int32_t steps = finite && step > 0 ? static_cast<int32_t>(std::lrint(q[i] / step)) : 0;
    to[i] = static_cast<int16_t>(std::clamp(steps, -kQuerySteps, kQuerySteps));
  }
  state.query_steps[g] = finite ? step * scale : std::numeric_limits<float>::quiet_NaN();
}

ROOFBENCH_TARGET_AVX512_VNNI inline __m512i WidenHalf(const int8_t* from) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

template <int64_t kGroup, bool kFetch>
ROOFBENCH_TARGET_AVX512_VNNI void ScoreSome(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block, int64_t g) {
  constexpr int64_t kKeys = kKeyLanes / kGroup;
  for (int64_t first = 0; first < block.count; first += kKeys) {
    __m512i sums[kKeyLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kKeyLanes; ++i) sums[i] = _mm512_setzero_si512();
    for (int64_t i = 0; i < state.dim; i += kHalfLine) {
      __m512i queries[kGroup];
#pragma GCC unroll 4
      for (int64_t member = 0; member < kGroup; ++member) {
        queries[member] = _mm512_load_si512(QueryOf(state, g + member) + i);
      }
#pragma GCC unroll 16
      for (int64_t j = 0; j < kKeys; ++j) {
        const __m512i half = WidenHalf(block.keys[first + j] + i);
        if (kFetch && i % kLine == 0) Fetch(block.keys[first + j + kRowsAhead] + i, block.values[first + j] + i);
#pragma GCC unroll 4
        for (int64_t member = 0; member < kGroup; ++member) {
          __m512i& sum = sums[member * kKeys + j];
          sum = _mm512_dpwssd_epi32(sum, half, queries[member]);
        }
      }
    }
    __m512 as_floats[kKeyLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kKeyLanes; ++i) as_floats[i] = _mm512_castsi512_ps(sums[i]);
    StoreScores<kGroup>(SumEach<__m512i>(as_floats), state, g, first);
  }
}

void Score(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) { ScoreSome<kGroup, kFirst>(state, block, g); });
}

// Integers become scores in their place.
ROOFBENCH_TARGET_AVX512_VNNI void Scale(DecodeState<int8_t>& state, int64_t g, const KeyBlock<int8_t>& block) {
  const __m512 step = _mm512_set1_ps(state.query_steps[g]);
  for (int64_t j = 0; j < block.count; j += kKeyLanes) {
    const __m512i sum = _mm512_load_si512(state.scores[g] + j);
    const __m512 factor = _mm512_mul_ps(step, _mm512_loadu_ps(block.key_scales + j));
    _mm512_store_ps(state.scores[g] + j, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor));
  }
}

ROOFBENCH_TARGET_AVX512_VNNI void Soften(DecodeState<int8_t>& state, int64_t g, const KeyBlock<int8_t>& block) {
  Scale(state, g, block);
  TakeLargest(state, g, block.count);
  const __m512 largest = _mm512_set1_ps(state.largest[g]);
  __m512 sum = _mm512_setzero_ps();
  __m512 most = _mm512_setzero_ps();
  for (int64_t j = 0; j < block.count; j += kKeyLanes) {
    __m512 exponential[] = {_mm512_sub_ps(_mm512_load_ps(state.scores[g] + j), largest)};
    Exp<Bf16>(exponential);
    const __m512 weight = _mm512_maskz_mov_ps(KeysThere(block.count, j), exponential[0]);
    sum = _mm512_add_ps(sum, weight);
    const __m512 scaled = _mm512_mul_ps(weight, _mm512_loadu_ps(block.value_scales + j));
    most = _mm512_max_ps(most, scaled);
    _mm512_store_ps(state.scores[g] + j, scaled);
  }
  state.weight_sums[g] += _mm512_reduce_add_ps(sum);
  const float step = _mm512_reduce_max_ps(most) / kWeightSteps;
  state.weight_steps[g] = step;
  const __m512 per_step = _mm512_set1_ps(step > 0 ? 1 / step : 0);
  const Halves to = WeightsOf(state, g);
  for (int64_t j = 0; j < block.count; j += kKeyLanes) {
    const __m512i steps =
        _mm512_min_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(state.scores[g] + j), per_step)),
                         _mm512_set1_epi32(kWeightSteps));
    _mm_store_si128(reinterpret_cast<__m128i*>(to.high + j), _mm512_cvtepi32_epi8(_mm512_srli_epi32(steps, 8)));
    _mm_store_si128(reinterpret_cast<__m128i*>(to.low + j), _mm512_cvtepi32_epi8(steps));
  }
}

// Of every 16 bytes of two lines the first 8 or the last 8, one from each by turns.
template <bool kUpper>
ROOFBENCH_TARGET_AVX512_VNNI inline __m512i Interleaved(const int8_t* first, const int8_t* second) {
  const __m512i a = _mm512_loadu_si512(first);
  const __m512i b = _mm512_loadu_si512(second);
  return kUpper ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
}

// Half a line of the values of all keys for kGroup query heads: of every 16 columns the first 8 or the last 8. Those of
// four keys, one element of each by turns, are what four weights are multiplied with.
template <int64_t kGroup, bool kUpper>
ROOFBENCH_TARGET_AVX512_VNNI void WeighColumns(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block,
                                               const KeyBlock<int8_t>* next, int64_t g, int64_t column) {
  __m512i high[kGroup][2];
  __m512i low[kGroup][2];
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) high[member][v] = low[member][v] = _mm512_setzero_si512();
  }
  for (int64_t j = 0; j < block.count; j += 4) {
    const __m512i first = Interleaved<kUpper>(block.values[j] + column, block.values[j + 1] + column);
    const __m512i second = Interleaved<kUpper>(block.values[j + 2] + column, block.values[j + 3] + column);
    const __m512i fours[] = {_mm512_unpacklo_epi16(first, second), _mm512_unpackhi_epi16(first, second)};
    if (next != nullptr) {
#pragma GCC unroll 4
      for (int64_t key = j; key < j + 4; ++key) {
        Fetch(block.values[key + kRowsAhead] + column, next->keys[key] + column);
      }
    }
#pragma GCC unroll 4
    for (int64_t member = 0; member < kGroup; ++member) {
      const Halves weights = WeightsOf(state, g + member);
      const __m512i of_high = _mm512_set1_epi32(reinterpret_cast<const int32_t*>(weights.high)[j / 4]);
      const __m512i of_low = _mm512_set1_epi32(reinterpret_cast<const int32_t*>(weights.low)[j / 4]);
#pragma GCC unroll 2
      for (int64_t v = 0; v < 2; ++v) {
        high[member][v] = _mm512_dpbusd_epi32(high[member][v], of_high, fours[v]);
        low[member][v] = _mm512_dpbusd_epi32(low[member][v], of_low, fours[v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
    const __m512 step = _mm512_set1_ps(state.weight_steps[g + member]);
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) {
      float* const sums = state.sums[g + member] + column + (kUpper ? 32 : 0) + v * 16;
      const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(high[member][v], 8), low[member][v]);
      _mm512_store_ps(sums, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), step, _mm512_load_ps(sums)));
    }
  }
}

void Weigh(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block, const KeyBlock<int8_t>* next) {
  next = FetchedMeanwhile(block, next);
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) {
    for (int64_t column = 0; column < state.dim; column += kLine) {
      WeighColumns<kGroup, false>(state, block, kFirst ? next : nullptr, g, column);
      WeighColumns<kGroup, true>(state, block, nullptr, g, column);
    }
  });
}

// Unpacking takes eight elements of each 128 bits for its lower result, of these four for the lower one of the next.
int64_t Place(int64_t column) {
  const int64_t in_line = column % kLine;
  return column - in_line + in_line / 4 % 4 * 16 + in_line / 16 * 4 + in_line % 4;
}

constexpr DecodeWay<int8_t> kWay = {
    .prepare = Prepare, .score = Score, .soften = Soften, .weigh = Weigh, .place = Place};

}  // namespace

const DecodeWay<int8_t>& Int8DecodeWay() { return kWay; }

}  // namespace roofbench::kernels::avx512
#endif
