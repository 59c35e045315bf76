// SPDX-License-Identifier: Apache-2.0
// What decode_attention.cc needs of an instruction set: the scores of a block of keys, their weights, and the sum of
// its values by these, for all query heads of a group.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/attention/decode_attention.h"

namespace roofbench::kernels {

// Keys between two looks at the maximum: K and V of a block stay in the L2, into which they are fetched a block ahead.
inline constexpr int64_t kKeyBlock = 128;
inline constexpr int64_t kMostGroup = 16;  // query heads at once; larger groups take several turns
inline constexpr int64_t kKeyLanes = 16;   // rows are there for a multiple of as many keys

// Rows that are fetched ahead of those in use: 4 KiB of 128 bf16. A block's values and the next one's keys are fetched
// from further away. Each alone leaves 5 to 15 % of the bandwidth: the second begins a block's reading in time, the
// first keeps it in the order that the processor's own prefetchers follow.
inline constexpr int64_t kRowsAhead = 16;

// Where the keys and values of a block lie. Behind the last one it is repeated, at least kRowsAhead times.
template <typename T>
struct KeyBlock {
  const T* keys[kKeyBlock + kRowsAhead];
  const T* values[kKeyBlock + kRowsAhead];
  float key_scales[kKeyBlock];  // of int8_t alone
  float value_scales[kKeyBlock];
  int64_t count;
};

// A group of query heads in the middle of its keys. What lies in queries, weights and sums is for the way alone to
// know.
template <typename T>
struct DecodeState {
  int64_t group;
  int64_t dim;
  alignas(64) float queries[kMostGroup][kMostHeadDim];
  float query_steps[kMostGroup];  // of int8_t alone: the unit of a query's integers
  alignas(64) float scores[kMostGroup][kKeyBlock];
  alignas(64) float weights[kMostGroup][kKeyBlock];
  float weight_steps[kMostGroup];  // of int8_t alone: the unit of a block's weights
  alignas(64) float sums[kMostGroup][kMostHeadDim];
  float largest[kMostGroup];  // scores so far
  float weight_sums[kMostGroup];
};

template <typename T>
struct DecodeWay {
  // queries[g] of q · scale.
  void (*prepare)(DecodeState<T>& state, int64_t g, const float* q, float scale);
  // scores of a block's keys; it fetches the block's values on the way.
  void (*score)(DecodeState<T>& state, const KeyBlock<T>& block);
  // weights of the scores; sums and weight_sums shrink by as much as the largest score has grown.
  void (*soften)(DecodeState<T>& state, int64_t g, const KeyBlock<T>& block);
  // sums += Σ weight · value; it fetches the keys of `next` on the way, where there are any.
  void (*weigh)(DecodeState<T>& state, const KeyBlock<T>& block, const KeyBlock<T>* next);
  // Where the sum of a column lies.
  int64_t (*place)(int64_t column);
};

template <typename T>
using DecodeWayFunction = const DecodeWay<T>& (*)();

template <typename T>
const DecodeWay<T>& PortableDecodeWay();
template <>
const DecodeWay<float>& PortableDecodeWay();
template <>
const DecodeWay<Bf16>& PortableDecodeWay();
template <>
const DecodeWay<Fp16>& PortableDecodeWay();
template <>
const DecodeWay<int8_t>& PortableDecodeWay();

namespace avx512 {
// Needs kAvx512Bf16, and head_dim a multiple of 32.
const DecodeWay<Bf16>& Bf16DecodeWay();
// Needs kAvx512Vnni, and head_dim a multiple of 64.
const DecodeWay<int8_t>& Int8DecodeWay();
}  // namespace avx512

}  // namespace roofbench::kernels
