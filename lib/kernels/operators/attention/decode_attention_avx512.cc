// SPDX-License-Identifier: Apache-2.0
// Decode attention with dot products of bf16, and of integers over int8 caches.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/kernels/operators/attention/decode_attention_variant.h"
#include "lib/kernels/simd/avx512.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {
namespace {

ROOFBENCH_TARGET_AVX512 inline __m512 Add(__m512 a, __m512 b, __m512 /*as*/) { return _mm512_add_ps(a, b); }
ROOFBENCH_TARGET_AVX512 inline __m512 Add(__m512 a, __m512 b, __m512i /*as*/) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

// 128-bit lane i of the result is the sum of those of the i-th vector.
template <typename As>
ROOFBENCH_TARGET_AVX512 inline __m512 SumLanes(__m512 v0, __m512 v1, __m512 v2, __m512 v3, As as) {
  const __m512 a = Add(_mm512_shuffle_f32x4(v0, v1, 0x88), _mm512_shuffle_f32x4(v0, v1, 0xdd), as);
  const __m512 b = Add(_mm512_shuffle_f32x4(v2, v3, 0x88), _mm512_shuffle_f32x4(v2, v3, 0xdd), as);
  return Add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd), as);
}

// Lane i of the result is the sum of the lanes of v[i].
ROOFBENCH_TARGET_AVX512 inline __m512 SumEach(__m512 (&v)[kKeyLanes]) {
  // Four rounds of adding neighbors halve the vectors; the first two work within 128-bit lanes.
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) {
    v[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]));
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(v[2 * i]);
    const __m512d b = _mm512_castps_pd(v[2 * i + 1]);
    v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  // Now lane 4l + j of v[i] is the share of 128-bit lane l in sum 4i + j.
  return SumLanes(v[0], v[1], v[2], v[3], __m512{});
}

// Scores of 16 / kGroup keys for each of kGroup query heads, from `first` on.
template <int64_t kGroup, typename T>
ROOFBENCH_TARGET_AVX512 inline void StoreScores(__m512 scores, DecodeState<T>& state, int64_t g, int64_t first) {
  if constexpr (kGroup == 1) _mm512_store_ps(state.scores[g] + first, scores);
  if constexpr (kGroup == 2) {
    _mm256_store_ps(state.scores[g] + first, _mm512_castps512_ps256(scores));
    _mm256_store_ps(state.scores[g + 1] + first, _mm512_extractf32x8_ps(scores, 1));
  }
  if constexpr (kGroup == 4) {
    _mm_store_ps(state.scores[g] + first, _mm512_castps512_ps128(scores));
    _mm_store_ps(state.scores[g + 1] + first, _mm512_extractf32x4_ps(scores, 1));
    _mm_store_ps(state.scores[g + 2] + first, _mm512_extractf32x4_ps(scores, 2));
    _mm_store_ps(state.scores[g + 3] + first, _mm512_extractf32x4_ps(scores, 3));
  }
}

// Updates the largest score of a query head with the scores of a block, and scales its sums down to it.
template <typename T>
ROOFBENCH_TARGET_AVX512 inline void TakeLargest(DecodeState<T>& state, int64_t g, int64_t count) {
  __m512 most = _mm512_set1_ps(state.largest[g]);
  for (int64_t j = 0; j < count; j += kKeyLanes) {
    most = _mm512_mask_max_ps(most, Mask16(count - j), most, _mm512_load_ps(state.scores[g] + j));
  }
  const float now = _mm512_reduce_max_ps(most);  // at least the previous maximum
  if (!(now > state.largest[g])) return;
  const float shrink = std::exp(state.largest[g] - now);
  for (int64_t i = 0; i < state.dim; i += kKeyLanes) {
    _mm512_store_ps(state.sums[g] + i, _mm512_mul_ps(_mm512_load_ps(state.sums[g] + i), _mm512_set1_ps(shrink)));
  }
  state.weight_sums[g] *= shrink;
  state.largest[g] = now;
}

// Fetches two rows of tiles line after line, in the order that the processor's own prefetchers follow. Into the L1,
// though a block does not stay there: from memory, fetching into the L2 takes up to a sixth longer on Zen 5.
class FetchedLines {
 public:
  template <typename T>
  FetchedLines(const T* const* soon, const T* const* later, int64_t dim)
      : soon_(reinterpret_cast<const char* const*>(soon)),
        later_(reinterpret_cast<const char* const*>(later)),
        tile_bytes_(kKeyLanes * dim * static_cast<int64_t>(sizeof(T))) {}

  // Fetches the next kLines lines, all of one tile: kLines divides kKeyLanes.
  template <int64_t kLines>
  ROOFBENCH_TARGET_AVX512 void Fetch() {
    const char* const soon = *soon_ + done_;
    const char* const later = *later_ + done_;
#pragma GCC unroll 16
    for (int64_t line = 0; line < kLines; ++line) {
      Prefetch(soon + line * kLineBytes);
      Prefetch(later + line * kLineBytes);
    }
    done_ += kLines * kLineBytes;
    if (done_ < tile_bytes_) return;
    done_ = 0;
    ++soon_;
    ++later_;
  }

 private:
  const char* const* soon_;
  const char* const* later_;
  int64_t tile_bytes_;
  int64_t done_ = 0;  // of the tile
};

// Calls function.template operator()<kSize, kFirst>(g) for parts of 4, 2 or 1 of a group. The first part fetches: the
// others read the same keys and values.
template <typename Function>
inline void InParts(int64_t group, Function function) {
  const auto part = [&]<int64_t kSize>(std::integral_constant<int64_t, kSize> /*size*/, int64_t g) {
    if (g == 0) {
      function.template operator()<kSize, true>(g);
    } else {
      function.template operator()<kSize, false>(g);
    }
  };
  int64_t g = 0;
  for (; g + 4 <= group; g += 4) part(std::integral_constant<int64_t, 4>(), g);
  if (g + 2 <= group) {
    part(std::integral_constant<int64_t, 2>(), g);
    g += 2;
  }
  if (g < group) part(std::integral_constant<int64_t, 1>(), g);
}

// In bf16, scores take pairs of elements of a head, sums of values pairs of keys. Queries and weights are rounded to
// bf16; the sum of weights is that of the rounded ones. fp32 takes single ones.
namespace floats {

constexpr int64_t kLine = kPerLine<Bf16>;

template <typename T>
ROOFBENCH_TARGET_AVX512_BF16 void Prepare(DecodeState<T>& state, int64_t g, const float* q, float scale) {
  auto* const to = reinterpret_cast<T*>(state.queries[g]);
  for (int64_t i = 0; i < state.dim; i += kPerLine<T>) {
    Floats<T> query;
    for (std::size_t v = 0; v < std::size(query.v); ++v) {
      query.v[v] = _mm512_mul_ps(_mm512_loadu_ps(q + i + static_cast<int64_t>(v) * kKeyLanes), _mm512_set1_ps(scale));
    }
    _mm512_store_si512(to + i, Pack(query));
  }
}

ROOFBENCH_TARGET_AVX512_BF16 inline __m512 PlusLine(__m512 sum, __m512i query, const Bf16* keys) {
  return PlusDot(sum, query, LoadLine(keys));
}
ROOFBENCH_TARGET_AVX512_BF16 inline __m512 PlusLine(__m512 sum, __m512i query, const float* keys) {
  return _mm512_fmadd_ps(_mm512_castsi512_ps(query), _mm512_loadu_ps(keys), sum);
}

template <int64_t kGroup, bool kFetch, typename T>
ROOFBENCH_TARGET_AVX512_BF16 void ScoreSome(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g) {
  constexpr int64_t kKeys = kKeyLanes / kGroup;
  FetchedLines ahead(block.keys_soon, block.values, state.dim);
  for (int64_t first = 0; first < block.count; first += kKeys) {
    const T* const keys = RowAt(block.keys, first, state.dim);
    __m512 sums[kKeyLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kKeyLanes; ++i) sums[i] = _mm512_setzero_ps();
    for (int64_t i = 0; i < state.dim; i += kPerLine<T>) {
      __m512i queries[kGroup];
#pragma GCC unroll 4
      for (int64_t member = 0; member < kGroup; ++member) {
        queries[member] = _mm512_load_si512(reinterpret_cast<const T*>(state.queries[g + member]) + i);
      }
      if constexpr (kFetch) ahead.Fetch<kKeys>();
#pragma GCC unroll 16
      for (int64_t j = 0; j < kKeys; ++j) {
#pragma GCC unroll 4
        for (int64_t member = 0; member < kGroup; ++member) {
          __m512& sum = sums[member * kKeys + j];
          sum = PlusLine(sum, queries[member], keys + j * state.dim + i);
        }
      }
    }
    StoreScores<kGroup>(SumEach(sums), state, g, first);
  }
}

template <typename T>
void Score(DecodeState<T>& state, const KeyBlock<T>& block) {
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
    const __mmask16 second = Mask16(block.count - j - kKeyLanes);
    const __m512i rounded = Pack(Floats<Bf16>{
        {_mm512_maskz_mov_ps(Mask16(block.count - j), exponentials[0]), _mm512_maskz_mov_ps(second, exponentials[1])}});
    _mm512_store_si512(weights + j, rounded);
    const Floats<Bf16> taken = Unpack(weights, rounded);
    sum = _mm512_add_ps(sum, _mm512_add_ps(taken.v[0], taken.v[1]));
  }
  state.weight_sums[g] += _mm512_reduce_add_ps(sum);
}

ROOFBENCH_TARGET_AVX512 void Soften(DecodeState<float>& state, int64_t g, const KeyBlock<float>& block) {
  TakeLargest(state, g, block.count);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < block.count; j += kKeyLanes) {
    __m512 e[1] = {_mm512_sub_ps(_mm512_load_ps(state.scores[g] + j), _mm512_set1_ps(state.largest[g]))};
    Exp<float>(e);
    e[0] = _mm512_maskz_mov_ps(Mask16(block.count - j), e[0]);
    _mm512_store_ps(state.weights[g] + j, e[0]);
    sum = _mm512_add_ps(sum, e[0]);
  }
  state.weight_sums[g] += _mm512_reduce_add_ps(sum);
}

// Adds kLines lines of the weighted values of all keys to the sums of kGroup query heads. The elements of two keys
// alternate, and a pair of weights multiplies them.
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
      for (int64_t v = 0; v < kHalves; ++v) sums[member][v] = PlusDot(sums[member][v], pairs[v], weight);
    }
  }
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kHalves; ++v) _mm512_store_ps(state.sums[g + member] + column + v * 16, sums[member][v]);
  }
  fetched = ahead;
}

template <int64_t kGroup, int64_t kLines, bool kFetch>
ROOFBENCH_TARGET_AVX512 void WeighColumns(DecodeState<float>& state, const KeyBlock<float>& block, int64_t g,
                                          int64_t column, FetchedLines& fetched) {
  FetchedLines ahead = fetched;
  __m512 sums[kGroup][kLines];
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
    ROOFBENCH_EACH_OF(kLines) sums[member][v] = _mm512_load_ps(state.sums[g + member] + column + v * 16);
  }
  for (int64_t j = 0; j < block.count; ++j) {
    const float* const from = RowAt(block.values, j, state.dim) + column;
    __m512 values[kLines];
    ROOFBENCH_EACH_OF(kLines) values[v] = _mm512_loadu_ps(from + v * 16);
    if constexpr (kFetch) ahead.Fetch<kLines>();
#pragma GCC unroll 4
    for (int64_t member = 0; member < kGroup; ++member) {
      const __m512 weight = _mm512_set1_ps(state.weights[g + member][j]);
      ROOFBENCH_EACH_OF(kLines) sums[member][v] = _mm512_fmadd_ps(weight, values[v], sums[member][v]);
    }
  }
#pragma GCC unroll 4
  for (int64_t member = 0; member < kGroup; ++member) {
    ROOFBENCH_EACH_OF(kLines) _mm512_store_ps(state.sums[g + member] + column + v * 16, sums[member][v]);
  }
  fetched = ahead;
}

template <typename T>
void Weigh(DecodeState<T>& state, const KeyBlock<T>& block) {
  InParts(state.group, [&]<int64_t kGroup, bool kFirst>(int64_t g) {
    FetchedLines ahead(block.values_soon, block.next_keys, state.dim);
    int64_t column = 0;
    for (; column + 2 * kPerLine<T> <= state.dim; column += 2 * kPerLine<T>) {
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

constexpr DecodeVariant<Bf16> kBf16Variant = {
    .prepare = Prepare, .score = Score, .soften = Soften, .weigh = Weigh, .place = Place};
constexpr DecodeVariant<float> kFp32Variant = {
    .prepare = Prepare, .score = Score, .soften = Soften, .weigh = Weigh, .place = [](int64_t column) {
      return column;
    }};

}  // namespace floats

// Over int8 caches, a query and a block's weights, multiplied by the factors of its values, become integers of 16 bits,
// 256 · high + low, each half of which is multiplied with bytes of the cache. So the step of rounding is at most
// 1/32767 of the largest element. Sums of integers are exact: 256 elements of a head, or 128 keys of a block, stay
// below 2^31.
namespace int8 {

constexpr int64_t kLine = 64;
constexpr int32_t kQuerySteps = 32767;
constexpr int32_t kWeightSteps = 65535;
static_assert(kMostHeadDim * 128 * kQuerySteps < int64_t{1} << 31);
static_assert(kKeyBlock * 128 * kWeightSteps < int64_t{1} << 31);

// The layout of a query, line after line: four pairs of vectors, upper halves with their signs and lower ones without.
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

// Stores elements of a query, each four of them four times.
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
  __m512 sizes = _mm512_setzero_ps();  // their sum is infinite or NaN if any element is
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

// Loads one line of four keys: lane l of vector j gets elements 16 l + 4 j to 16 l + 4 j + 3 of each of them.
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

// Products of bytes take one unsigned operand: keys have 128 added for the upper halves of queries, which query_offsets
// subtracts again.
template <int64_t kGroup, bool kFetch>
ROOFBENCH_TARGET_AVX512_VNNI void ScoreSome(DecodeState<int8_t>& state, const KeyBlock<int8_t>& block, int64_t g) {
  constexpr int64_t kQuads = kGroup == 1 ? 4 : 2;  // two quads share the loads of the queries
  constexpr int64_t kKeys = kQuads * kQuad;
  FetchedLines ahead(block.keys_soon, block.values, state.dim);
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
          unsigned_keys[quad] = Unsigned(keys[quad][j]);
        }
#pragma GCC unroll 4
        for (int64_t member = 0; member < kGroup; ++member) {
          const uint8_t* const query = QueryOf(state, g + member) + i * 2 * kQuad + j * 2 * kLine;
          const __m512i of_high = _mm512_load_si512(query);
          const __m512i of_low = _mm512_load_si512(query + kLine);
#pragma GCC unroll 4
          for (int64_t quad = 0; quad < kQuads; ++quad) {
            AddDot(high[quad][member], unsigned_keys[quad], of_high);
            AddDot(low[quad][member], of_low, keys[quad][j]);
          }
        }
      }
    }
    // Lane i of a vector of sums, which holds four keys: quad i of one member, or half of them of two, or member i.
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

// Converts integers to scores in place.
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
    const __m512 weight = _mm512_maskz_mov_ps(Mask16(block.count - j), exponential[0]);
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

// Interleaves the first 8 or the last 8 of every 16 bytes of two lines.
template <bool kUpper>
ROOFBENCH_TARGET_AVX512_VNNI inline __m512i Interleaved(const int8_t* first, const int8_t* second) {
  const __m512i a = _mm512_loadu_si512(first);
  const __m512i b = _mm512_loadu_si512(second);
  return kUpper ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
}

// Adds half a line of the weighted values of all keys to the sums of kGroup query heads: of every 16 columns the first
// 8 or the last 8. The elements of four keys alternate, and four weights multiply them.
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
        AddDot(high[member][v], of_high, fours[v]);
        AddDot(low[member][v], of_low, fours[v]);
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

}  // namespace int8
}  // namespace

const DecodeVariant<float>& Fp32DecodeVariant() { return floats::kFp32Variant; }
const DecodeVariant<Bf16>& Bf16DecodeVariant() { return floats::kBf16Variant; }
const DecodeVariant<int8_t>& Int8DecodeVariant() { return int8::kVariant; }

}  // namespace roofbench::kernels::avx512
#endif
