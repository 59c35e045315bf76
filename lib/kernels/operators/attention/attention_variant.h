// SPDX-License-Identifier: Apache-2.0
// What attention.cc needs of an instruction set.
//
// Operands lie in words of 32 bits: a float, or two bf16 that a dot product takes at once. Products broadcast a word of
// the left operand and take vectors of the right one, so that queries stay as they are, and keys and values are packed.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/bf16.h"

namespace roofbench::kernels {

inline constexpr int64_t kPanel = 64;      // columns that a product makes at once: keys, or elements of a head
inline constexpr int64_t kRowsAtOnce = 4;  // rows that it makes at once
inline constexpr int64_t kVectorWords = 16;

// c[i][j] = Σ a[i][w] · b[w][j], plus what was there if `add`, for kRowsAtOnce rows and 16 · `vectors` columns (1 to
// kPanel/16 vectors).
struct TileProduct {
  const float* a;  // [kRowsAtOnce, a_stride] words
  int64_t a_stride;
  const float* b;  // [steps, b_stride] words
  int64_t b_stride;
  int64_t steps;
  float* c;
  int64_t c_stride;
  int64_t vectors;
  bool add;
};

// One query between its two products.
struct ScoreRow {
  float* scores;  // [until] on entry; on return the weights in their place, as words
  int64_t seen;   // scores that count, 0 to until; the other weights become zero
  int64_t until;
  float scale;     // of scores
  float* sum;      // [width], shrunk by as much as the largest score has grown
  int64_t width;   // a multiple of 16
  float* largest;  // so far, of scaled scores
  float* weight;   // sum of weights so far
};

template <typename T>
struct AttentionVariant {
  int64_t per_word;  // elements
  float log_base;    // natural logarithm of the number whose powers the weights are
  // `count` vectors to rows of words, at most kPanel.
  void (*pack_queries)(const T* from, int64_t stride, int64_t count, int64_t dim, float* to);
  // Up to kPanel keys, zeros for the rest: [words of a head, kPanel].
  void (*pack_keys)(const T* from, int64_t stride, int64_t count, int64_t dim, float* to);
  // Up to kPanel elements of as many values, zeros for the rest: [kPanel / per_word, columns rounded up to 16].
  void (*pack_values)(const T* from, int64_t stride, int64_t count, int64_t columns, float* to);
  void (*product)(const TileProduct& tile);
  void (*weigh)(const ScoreRow& row);
  // y = sum · scale.
  void (*finish)(const float* sum, float scale, int64_t dim, T* y);
};

template <typename T>
using AttentionVariantFunction = const AttentionVariant<T>& (*)();

namespace avx512 {
// Needs kAvx512Bf16.
const AttentionVariant<Bf16>& Bf16AttentionVariant();
}  // namespace avx512

template <typename T>
const AttentionVariant<T>& PortableAttentionVariant();

}  // namespace roofbench::kernels
