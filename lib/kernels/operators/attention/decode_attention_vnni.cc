// SPDX-License-Identifier: Apache-2.0
// Decode attention over int8 caches by dot products of integers.
//
// A query and a block's weights, with the factors of its values in them, become integers of 16 bits, 256 · high + low,
// each half of which is multiplied with bytes of the cache. So nothing is rounded more coarsely than 2^-15 of the
// largest element. Sums of integers are exact: 256 elements of a head, or 128 keys of a block, stay below 2^31.
#include "lib/kernels/operators/attention/decode_attention_avx512.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

constexpr int64_t kLine = 64;
constexpr int32_t kQuerySteps = 32767;
constexpr int32_t kWeightSteps = 65535;
static_assert(kMostHeadDim * 128 * kQuerySteps < int64_t{1} << 31);
static_assert(kKeyBlock * 128 * kWeightSteps < int64_t{1} << 31);

// A query, a line of it behind the other: four pairs of vectors, upper halves with their signs and lower ones without.
// The 128-bit lane l of vector j has elements 16 l + 4 j to 16 l + 4 j + 3 four times, once for each key of a quad.
constexpr int64_t kQuad = 4;
uint8_t* QueryOf(DecodeState<int8_t>& state, int64_t g) { return reinterpret_cast<uint8_t*>(state.queries[g]); }

// Both halves of the weights of a query head.
struct Halves {
  uint8_t* high;
  uint8_t* low;
};
Halves WeightsOf(DecodeState<int8_t>& state, int64_t g) {
  auto* const bytes = reinterpret_cast<uint8_t*>(state.weights[g]);
  return {bytes, bytes + kKeyBlock};
}

// Elements of a query, each four of them four times.
ROOFBENCH_TARGET_AVX512_VNNI inline void StoreFours(__m128i elements, uint8_t* to) {
  const auto store = [&](int64_t j, __m128i fours) ROOFBENCH_TARGET_AVX512_VNNI {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + j * 2 * kLine), fours);
  };
  store(0, _mm_shuffle_epi32(elements, 0x00));
  store(1, _mm_shuffle_epi32(elements, 0x55));
  store(2, _mm_shuffle_epi32(elements, 0xaa));
  store(3, _mm_shuffle_epi32(elements, 0xff));
}

ROOFBENCH_TARGET_AVX512_VNNI void Prepare(DecodeState<int8_t>& state, int64_t g, const float* q, float scale) {
  __m512 most = _mm512_setzero_ps();
  __m512 sizes = _mm512_setzero_ps();  // their sum is no number if any element is none
  for (int64_t i = 0; i < state.dim; i += kKeyLanes) {
    const __m512 size = _mm512_abs_ps(_mm512_loadu_ps(q + i));
    most = _mm512_max_ps(most, size);
    sizes = _mm512_add_ps(sizes, size);
  }
  const bool finite = std::isfinite(_mm512_reduce_add_ps(sizes));
  const float step = _mm512_reduce_max_ps(most) / kQuerySteps;
  const __m512 per_step = _mm512_set1_ps(finite && step > 0 ? 1 / step : 0);
  const __m512i limit = _mm512_set1_epi32(kQuerySteps);
  __m512i sum_of_high = _mm512_setzero_si512();
  for (int64_t i = 0; i < state.dim; i += kKeyLanes) {
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(q + i), per_step));
    const __m512i steps = _mm512_max_epi32(_mm512_min_epi32(whole, limit), _mm512_sub_epi32(__m512i{}, limit));
    const __m512i high = _mm512_srai_epi32(steps, 8);
    sum_of_high = _mm512_add_epi32(sum_of_high, high);
    uint8_t* const to = QueryOf(state, g) + i / kLine * kLine * 2 * kQuad + i % kLine;
    StoreFours(_mm512_cvtepi32_epi8(high), to);
    StoreFours(_mm512_cvtepi32_epi8(steps), to + kLine);
  }
  state.query_steps[g] = finite ? step * scale : std::numeric_limits<float>::quiet_NaN();
  state.query_offsets[g] = _mm512_reduce_add_epi32(sum_of_high) * 256 * 128;
}

// One line of four keys: lane l of vector j gets elements 16 l + 4 j to 16 l + 4 j + 3 of each of them.
ROOFBENCH_TARGET_AVX512_VNNI inline void LoadQuad(const int8_t* line, int64_t dim, __m512i (&to)[kQuad]) {
  __m512i lines[kQuad];
#pragma GCC unroll 4
  for (int64_t key = 0; key < kQuad; ++key) lines[key] = _mm512_loadu_si512(line + key * dim);
  const __m512i low[] = {_mm512_unpacklo_epi32(lines[0], lines[1]), _mm512_unpacklo_epi32(lines[2], lines[3])};
  const __m512i high[] = {_mm512_unpackhi_epi32(lines[0], lines[1]), _mm512_unpackhi_epi32(lines[2], lines[3])};
  to[0] = _mm512_unpacklo_epi64(low[0], low[1]);
  to[1] = _mm512_unpackhi_epi64(low[0], low[1]);
  to[2] = _mm512_unpacklo_epi64(high[0], high[1]);
  to[3] = _mm512_unpackhi_epi64(high[0], high[1]);
}

// Products of bytes take one operand without a sign: keys have 128 added for the upper halves of queries, which
// query_offsets takes away again.
template <int64_t kGroup, bool kFetch>
ROOFBENCH_TARGET_AVX512_VNNI void ScoreSome(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block, int64_t g) {
  constexpr int64_t kQuads = kGroup == 1 ? 4 : 2;  // two share what is loaded of the queries
  constexpr int64_t kKeys = kQuads * kQuad;
  FetchedLines ahead(block.keys_soon, block.values, state.dim);
  const __m512i upper_bits = _mm512_set1_epi8(-128);
  for (int64_t first = 0; first < block.count; first += kKeys) {
    const int8_t* const rows = RowAt(block.keys, first, state.dim);
    __m512i high[kQuads][kGroup];
    __m512i low[kQuads][kGroup];
#pragma GCC unroll 4
    for (int64_t quad = 0; quad < kQuads; ++quad) {
#pragma GCC unroll 4
      for (int64_t member = 0; member < kGroup; ++member) high[quad][member] = low[quad][member] = __m512i{};
    }
    for (int64_t i = 0; i < state.dim; i += kLine) {
      __m512i keys[kQuads][kQuad];
#pragma GCC unroll 4
      for (int64_t quad = 0; quad < kQuads; ++quad) {
        LoadQuad(rows + quad * kQuad * state.dim + i, state.dim, keys[quad]);
      }
      if constexpr (kFetch) ahead.Fetch<kKeys>();
#pragma GCC unroll 4
      for (int64_t j = 0; j < kQuad; ++j) {
        __m512i unsigned_keys[kQuads];
#pragma GCC unroll 4
        for (int64_t quad = 0; quad < kQuads; ++quad) {
          unsigned_keys[quad] = _mm512_xor_si512(keys[quad][j], upper_bits);
        }
#pragma GCC unroll 4
        for (int64_t member = 0; member < kGroup; ++member) {
          const uint8_t* const query = QueryOf(state, g + member) + i * 2 * kQuad + j * 2 * kLine;
          const __m512i of_high = _mm512_load_si512(query);
          const __m512i of_low = _mm512_load_si512(query + kLine);
#pragma GCC unroll 4
          for (int64_t quad = 0; quad < kQuads; ++quad) {
            high[quad][member] = _mm512_dpbusd_epi32(high[quad][member], unsigned_keys[quad], of_high);
            low[quad][member] = _mm512_dpbusd_epi32(low[quad][member], of_low, keys[quad][j]);
          }
        }
      }
    }
    // Lane i of a vector of sums, which has four keys: quad i of one member, or half of them of two, or member i.
    constexpr int64_t kQuadsAtOnce = 4 / kGroup;
#pragma GCC unroll 2
    for (int64_t from = 0; from < kQuads; from += kQuadsAtOnce) {
      __m512 sums[4];
#pragma GCC unroll 4
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t quad = from + i % kQuadsAtOnce;
        const int64_t member = i / kQuadsAtOnce;
        sums[i] = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(high[quad][member], 8), low[quad][member]));
      }
      StoreScores<kGroup>(SumLanes(sums[0], sums[1], sums[2], sums[3], __m512i{}), state, g, first + from * kQuad);
    }
  }
}

void Score(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) { ScoreSome<kGroup, kFirst>(state, block, g); });
}

// Integers become scores in their place.
ROOFBENCH_TARGET_AVX512_VNNI void Scale(DecodeState<int8_t>& state, int64_t g, const KeyBlock<int8_t>& block) {
  const __m512 step = _mm512_set1_ps(state.query_steps[g]);
  const __m512i offset = _mm512_set1_epi32(state.query_offsets[g]);
  for (int64_t j = 0; j < block.count; j += kKeyLanes) {
    const __m512i sum = _mm512_sub_epi32(_mm512_load_si512(state.scores[g] + j), offset);
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
template <int64_t kGroup, bool kUpper, bool kFetch>
ROOFBENCH_TARGET_AVX512_VNNI void WeighColumns(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block, int64_t g,
                                               int64_t column, FetchedLines& fetched) {
  FetchedLines ahead = fetched;
  __m512i high[kGroup][2];
  __m512i low[kGroup][2];
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < 2; ++v) high[member][v] = low[member][v] = _mm512_setzero_si512();
  }
  for (int64_t j = 0; j < block.count; j += 4) {
    const int8_t* const values = RowAt(block.values, j, state.dim) + column;
    const __m512i first = Interleaved<kUpper>(values, values + state.dim);
    const __m512i second = Interleaved<kUpper>(values + 2 * state.dim, values + 3 * state.dim);
    const __m512i fours[] = {_mm512_unpacklo_epi16(first, second), _mm512_unpackhi_epi16(first, second)};
    if constexpr (kFetch) ahead.Fetch<2>();
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
  fetched = ahead;
}

void Weigh(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) {
    FetchedLines ahead(block.values_soon, block.next_keys, state.dim);
    for (int64_t column = 0; column < state.dim; column += kLine) {
      WeighColumns<kGroup, false, kFirst>(state, block, g, column, ahead);
      WeighColumns<kGroup, true, kFirst>(state, block, g, column, ahead);
    }
  });
}

// Unpacking takes eight elements of each 128 bits for its lower result, of these four for the lower one of the next.
int64_t Place(int64_t column) {
  const int64_t in_line = column % kLine;
  return column - in_line + in_line / 4 % 4 * 16 + in_line / 16 * 4 + in_line % 4;
}

constexpr DecodeVariant<int8_t> kVariant = {
    .prepare = Prepare, .score = Score, .soften = Soften, .weigh = Weigh, .place = Place};

}  // namespace

const DecodeVariant<int8_t>& Int8DecodeVariant() { return kVariant; }

}  // namespace roofbench::kernels::avx512
#endif
