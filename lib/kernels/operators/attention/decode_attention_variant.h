// SPDX-License-Identifier: Apache-2.0
// The interface of decode_attention.cc to an instruction set: the scores of a block of keys, their weights, and the
// weighted sum of its values, for all query heads of a group.
#pragma once

#include <cstdint>
#include <tuple>

#include "lib/kernels/operators/attention/decode_attention.h"

namespace roofbench::kernels {

// The most keys between two updates of the maximum: K and V of a block stay in the L2.
inline constexpr int64_t kKeyBlock = 128;
inline constexpr int64_t kMostGroup = 16;  // query heads at once; larger groups take several turns
inline constexpr int64_t kColumnsTogether = 4;
inline constexpr int64_t kKeyLanes = 16;  // keys of a tile, whose rows are contiguous

// A block of keys and values in tiles, and those that are read after it. A partial last tile repeats its last row.
template <typename T>
struct KeyBlock {
  const T* const* keys;  // [tiles]
  const T* const* values;
  const T* const* keys_soon;  // tiles read a little later; they end after the block's last ones
  const T* const* values_soon;
  const T* const* next_keys;
  const float* key_scales;  // [tiles, kKeyLanes] for int8_t alone; zero in lanes without a key
  const float* value_scales;
  int64_t count;
};

// Row `key` of those that begin at tiles.
template <typename T>
inline const T* RowAt(const T* const* tiles, int64_t key, int64_t dim) {
  return tiles[key / kKeyLanes] + key % kKeyLanes * dim;
}

// A group of query heads partway through its keys. The layout of queries, weights and sums is private to the variant.
template <typename T>
struct DecodeState {
  int64_t group;
  int64_t dim;
  alignas(64) float queries[kMostGroup][2 * kMostHeadDim];
  float query_steps[kMostGroup];      // for int8_t alone: the unit of a query's integers
  int32_t query_offsets[kMostGroup];  // for int8_t alone: the excess of scores, in these units
  alignas(64) float scores[kMostGroup][kKeyBlock];
  alignas(64) float weights[kMostGroup][kKeyBlock];
  float weight_steps[kMostGroup];  // for int8_t alone: the unit of a block's weights
  alignas(64) float sums[kMostGroup][kMostHeadDim];
  float largest[kMostGroup];  // scores so far
  float weight_sums[kMostGroup];
};

template <typename T>
struct DecodeVariant {
  // Sets queries[g] from q · scale.
  void (*prepare)(DecodeState<T>& state, int64_t g, const float* q, float scale);
  // Sets the scores of a block's keys; meanwhile fetches the block's values, and keys that are read soon.
  void (*score)(DecodeState<T>& state, const KeyBlock<T>& block);
  // Sets the weights from the scores; scales sums and weight_sums down as the largest score grows.
  void (*soften)(DecodeState<T>& state, int64_t g, const KeyBlock<T>& block);
  // sums += Σ weight · value; meanwhile fetches the next keys, and values that are read soon.
  void (*weigh)(DecodeState<T>& state, const KeyBlock<T>& block);
  // The position of the sums of kColumnsTogether columns; the first column is a multiple of it.
  int64_t (*place)(int64_t column);
};

// Those of one of Highway's targets, which take every cache.
using PortableVariants =
    std::tuple<DecodeVariant<float>, DecodeVariant<Bf16>, DecodeVariant<Fp16>, DecodeVariant<int8_t>>;

namespace avx512 {
// Needs kAvx512Bf16, and head_dim a multiple of 16.
const DecodeVariant<float>& Fp32DecodeVariant();
// Needs kAvx512Bf16, and head_dim a multiple of 32.
const DecodeVariant<Bf16>& Bf16DecodeVariant();
// Needs kAvx512Vnni, and head_dim a multiple of 64.
const DecodeVariant<int8_t>& Int8DecodeVariant();
}  // namespace avx512

}  // namespace roofbench::kernels
