// SPDX-License-Identifier: Apache-2.0
// Decode attention in fp32 over caches of every type, an element of which becomes a float as it is read.
#include "lib/kernels/operators/attention/decode_attention_variant.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \
  "lib/kernels/operators/attention/decode_attention_portable.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "hwy/cache_control.h"
#include "lib/kernels/simd/highway_exponentials.inc"

// The types of caches: variant(name, type) for each. Highway reads this file once a target, hence the guard.
#ifndef ROOFBENCH_DECODE_TYPES
#define ROOFBENCH_DECODE_TYPES(variant) \
  variant(Fp32, float) variant(Bf16, Bf16) variant(Fp16, Fp16) variant(Int8, int8_t)
#endif

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE FloatVec LoadRow(const T* from) {
  if constexpr (std::is_same_v<T, Fp16>) {
    const hn::Rebind<hwy::float16_t, FloatTag> halves;
    return hn::PromoteTo(FloatTag(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
  } else if constexpr (std::is_same_v<T, int8_t>) {
    const hn::Rebind<int8_t, FloatTag> bytes;
    const hn::Rebind<int32_t, FloatTag> words;
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(words, hn::LoadU(bytes, from)));
  } else {
    return LoadFloats(from);
  }
}

// The first `count` elements, zeros behind them.
template <typename T>
HWY_INLINE FloatVec LoadRowEnd(const T* from, std::size_t count) {
  T padded[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy_n(from, count, padded);
  return LoadRow(padded);
}

// The scores of kKeys keys for one query head.
template <int64_t kKeys, typename T>
HWY_INLINE void ScoreKeys(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g, int64_t first) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  const float* const q = state.queries[g];
  const T* const keys = RowAt(block.keys, first, state.dim);
  FloatVec sums[kKeys];
  for (int64_t j = 0; j < kKeys; ++j) sums[j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= state.dim; i += lanes) {
    const FloatVec query = hn::LoadU(d, q + i);
    for (int64_t j = 0; j < kKeys; ++j) sums[j] = hn::MulAdd(query, LoadRow(keys + j * state.dim + i), sums[j]);
  }
  if (i < state.dim) {
    const auto rest = static_cast<std::size_t>(state.dim - i);
    const FloatVec query = LoadRowEnd(q + i, rest);
    for (int64_t j = 0; j < kKeys; ++j) {
      sums[j] = hn::MulAdd(query, LoadRowEnd(keys + j * state.dim + i, rest), sums[j]);
    }
  }
  for (int64_t j = 0; j < kKeys; ++j) {
    const float scale = std::is_same_v<T, int8_t> ? block.key_scales[first + j] : 1.0F;
    state.scores[g][first + j] = SumOf(sums[j]) * scale;
  }
}

// The query heads in turn for a few keys at a time, which stay in the L1.
template <typename T>
HWY_INLINE void ScoreBlock(DecodeState<T>& state, const KeyBlock<T>& block) {
  constexpr int64_t kKeys = 4;
  constexpr auto kPerLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t first = 0; first < block.count; first += kKeys) {
    for (int64_t j = first; j < first + kKeys; ++j) {
      const T* const values = RowAt(block.values, j, state.dim);
      for (int64_t i = 0; i < state.dim; i += kPerLine) hwy::Prefetch(values + i);
    }
    for (int64_t g = 0; g < state.group; ++g) ScoreKeys<kKeys>(state, block, g, first);
  }
}

template <typename T>
HWY_INLINE void SoftenBlock(DecodeState<T>& state, int64_t g, const KeyBlock<T>& block) {
  const auto count = static_cast<std::size_t>(block.count);
  const float now = MaximumOf(state.scores[g], count);
  if (now > state.largest[g]) {
    const float shrink = std::exp(state.largest[g] - now);
    for (int64_t i = 0; i < state.dim; ++i) state.sums[g][i] *= shrink;
    state.weight_sums[g] *= shrink;
    state.largest[g] = now;
  }
  state.weight_sums[g] += SumExponentials<true>(state.scores[g], count, state.largest[g], state.weights[g]);
  if constexpr (std::is_same_v<T, int8_t>) {
    for (int64_t j = 0; j < block.count; ++j) state.weights[g][j] *= block.value_scales[j];
  }
}

// kVectors vectors of the sums of kGroup query heads.
template <int64_t kGroup, int64_t kVectors, typename T>
HWY_INLINE void WeighColumns(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g, int64_t column) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  FloatVec sums[kGroup][kVectors];
  for (int64_t member = 0; member < kGroup; ++member) {
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[member][v] = hn::LoadU(d, state.sums[g + member] + column + v * lanes);
    }
  }
  for (int64_t j = 0; j < block.count; ++j) {
    FloatVec values[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) values[v] = LoadRow(RowAt(block.values, j, state.dim) + column + v * lanes);
    for (int64_t member = 0; member < kGroup; ++member) {
      const FloatVec weight = hn::Set(d, state.weights[g + member][j]);
      for (int64_t v = 0; v < kVectors; ++v) sums[member][v] = hn::MulAdd(weight, values[v], sums[member][v]);
    }
  }
  for (int64_t member = 0; member < kGroup; ++member) {
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[member][v], d, state.sums[g + member] + column + v * lanes);
    }
  }
}

template <int64_t kGroup, typename T>
HWY_INLINE void WeighGroup(DecodeState<T>& state, const KeyBlock<T>& block, int64_t g) {
  constexpr int64_t kVectors = 2;
  const auto lanes = static_cast<int64_t>(FloatLanes());
  int64_t column = 0;
  for (; column + kVectors * lanes <= state.dim; column += kVectors * lanes) {
    WeighColumns<kGroup, kVectors>(state, block, g, column);
  }
  for (; column + lanes <= state.dim; column += lanes) WeighColumns<kGroup, 1>(state, block, g, column);
  for (; column < state.dim; ++column) {
    for (int64_t member = g; member < g + kGroup; ++member) {
      float& sum = state.sums[member][column];
      for (int64_t j = 0; j < block.count; ++j) {
        sum += state.weights[member][j] * ToFloat(RowAt(block.values, j, state.dim)[column]);
      }
    }
  }
}

template <typename T>
HWY_INLINE void WeighBlock(DecodeState<T>& state, const KeyBlock<T>& block) {
  constexpr auto kPerLine = static_cast<int64_t>(64 / sizeof(T));
  for (int64_t i = 0; i < kKeyLanes * state.dim; i += kPerLine) hwy::Prefetch(*block.next_keys + i);
  int64_t g = 0;
  for (; g + 4 <= state.group; g += 4) WeighGroup<4>(state, block, g);
  for (; g < state.group; ++g) WeighGroup<1>(state, block, g);
}

#define ROOFBENCH_DECODE_VARIANT(name, T)                                                                         \
  void Score##name(DecodeState<T>& state, const KeyBlock<T>& block) { ScoreBlock(state, block); }                 \
  void Soften##name(DecodeState<T>& state, int64_t g, const KeyBlock<T>& block) { SoftenBlock(state, g, block); } \
  void Weigh##name(DecodeState<T>& state, const KeyBlock<T>& block) { WeighBlock(state, block); }
ROOFBENCH_DECODE_TYPES(ROOFBENCH_DECODE_VARIANT)
#undef ROOFBENCH_DECODE_VARIANT

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {
namespace {

template <typename T>
void Prepare(DecodeState<T>& state, int64_t g, const float* q, float scale) {
  for (int64_t i = 0; i < state.dim; ++i) state.queries[g][i] = q[i] * scale;
}

int64_t Place(int64_t column) { return column; }

// Highway's tables hold plain functions: hence one of each for every type.
#define ROOFBENCH_DECODE_VARIANT(name, T)                                                                    \
  HWY_EXPORT(Score##name);                                                                                   \
  HWY_EXPORT(Soften##name);                                                                                  \
  HWY_EXPORT(Weigh##name);                                                                                   \
  constexpr DecodeVariant<T> k##name = {.prepare = Prepare<T>,                                               \
                                        .score =                                                             \
                                            [](DecodeState<T>& state, const KeyBlock<T>& block) {            \
                                              HWY_DYNAMIC_DISPATCH(Score##name)                              \
                                              (state, block);                                                \
                                            },                                                               \
                                        .soften =                                                            \
                                            [](DecodeState<T>& state, int64_t g, const KeyBlock<T>& block) { \
                                              HWY_DYNAMIC_DISPATCH(Soften##name)                             \
                                              (state, g, block);                                             \
                                            },                                                               \
                                        .weigh =                                                             \
                                            [](DecodeState<T>& state, const KeyBlock<T>& block) {            \
                                              HWY_DYNAMIC_DISPATCH(Weigh##name)                              \
                                              (state, block);                                                \
                                            },                                                               \
                                        .place = Place};
ROOFBENCH_DECODE_TYPES(ROOFBENCH_DECODE_VARIANT)
#undef ROOFBENCH_DECODE_VARIANT

}  // namespace

#define ROOFBENCH_PORTABLE_VARIANT(name, T)         \
  template <>                                       \
  const DecodeVariant<T>& PortableDecodeVariant() { \
    return k##name;                                 \
  }
ROOFBENCH_DECODE_TYPES(ROOFBENCH_PORTABLE_VARIANT)
#undef ROOFBENCH_PORTABLE_VARIANT

}  // namespace roofbench::kernels
#endif
