// SPDX-License-Identifier: Apache-2.0
// What the decode attentions with AVX-512 share. Empty on other processors.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/kernels/operators/attention/decode_attention_variant.h"
#include "lib/kernels/simd/avx512_exp.h"

#if ROOFBENCH_X86

namespace roofbench::kernels::avx512 {

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

// Lane i of the result is the sum of the lanes of v[i], which are floats, or integers if As is __m512i.
template <typename As>
ROOFBENCH_TARGET_AVX512 inline __m512 SumEach(__m512 (&v)[kKeyLanes]) {
  const As as = {};
  // Four rounds of adding neighbors halve the vectors; the first two work within 128-bit lanes.
#pragma GCC unroll 8
  for (int64_t i = 0; i < 8; ++i) {
    v[i] = Add(_mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]), as);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(v[2 * i]);
    const __m512d b = _mm512_castps_pd(v[2 * i + 1]);
    v[i] = Add(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)), as);
  }
  // Now lane 4l + j of v[i] is what 128-bit lane l has of the sum 4i + j.
  return SumLanes(v[0], v[1], v[2], v[3], as);
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

// Of the lanes from key `j` on, those that a key is in.
ROOFBENCH_TARGET_AVX512 inline __mmask16 KeysThere(int64_t count, int64_t j) {
  return static_cast<__mmask16>(count - j >= kKeyLanes ? 0xffff : (1 << (count - j)) - 1);
}

// Takes the scores of a block into the largest one of a query head.
template <typename T>
ROOFBENCH_TARGET_AVX512 inline void TakeLargest(DecodeState<T>& state, int64_t g, int64_t count) {
  __m512 most = _mm512_set1_ps(state.largest[g]);
  for (int64_t j = 0; j < count; j += kKeyLanes) {
    most = _mm512_mask_max_ps(most, KeysThere(count, j), most, _mm512_load_ps(state.scores[g] + j));
  }
  const float now = _mm512_reduce_max_ps(most);  // no less than before
  if (!(now > state.largest[g])) return;
  const float shrink = std::exp(state.largest[g] - now);
  for (int64_t i = 0; i < state.dim; i += kKeyLanes) {
    _mm512_store_ps(state.sums[g] + i, _mm512_mul_ps(_mm512_load_ps(state.sums[g] + i), _mm512_set1_ps(shrink)));
  }
  state.weight_sums[g] *= shrink;
  state.largest[g] = now;
}

// Fetches two rows of tiles line after line, in the order that the processor's own prefetchers follow.
class FetchedLines {
 public:
  template <typename T>
  FetchedLines(const T* const* soon, const T* const* later, int64_t dim)
      : soon_(reinterpret_cast<const char* const*>(soon)),
        later_(reinterpret_cast<const char* const*>(later)),
        tile_bytes_(kKeyLanes * dim * static_cast<int64_t>(sizeof(T))) {}

  // The next kLines lines, all of one tile: kLines divides kKeyLanes.
  template <int64_t kLines>
  ROOFBENCH_TARGET_AVX512 void Fetch() {
    const char* const soon = *soon_ + done_;
    const char* const later = *later_ + done_;
#pragma GCC unroll 16
    for (int64_t line = 0; line < kLines; ++line) {
      PrefetchL2(soon + line * kLineBytes);
      PrefetchL2(later + line * kLineBytes);
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

// function.template operator()<kSize, kFirst>(g) for parts of 4, 2 or 1 of a group. The first part is the one that
// fetches: the others read the same keys and values.
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

}  // namespace roofbench::kernels::avx512
#endif
