// SPDX-License-Identifier: Apache-2.0
// What attention_gradient.cc needs of an instruction set beside what the forward pass does.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/attention/attention_variant.h"

namespace roofbench::kernels {

inline constexpr int64_t kMostPerWord = 2;

// Some keys, as many as a word has elements, against the queries of a block, between the products. Row r of an array is
// `stride` words after row r - 1.
struct GradientRows {
  float* scores;    // on return the weights, as words
  float* products;  // dy · v; on return ds without its scale, as words
  int64_t stride;
  float* pairs;   // on return ds again: of a query, a word has the elements of all keys here
  int64_t begin;  // queries that are written, multiples of kPanel
  int64_t until;
  int64_t first[kMostPerWord];  // query that sees the key of this row, begin to `end`: weights before it are zero
  int64_t end;                  // of queries: weights from it on are zero
  float scale;                  // of scores
  const float* log_sum_exp;     // [end]
  const float* corrections;     // [end]: dy · y
};

template <typename T>
struct AttentionGradientVariant {
  const AttentionVariant<T>& (*forward)();
  void (*weigh)(const GradientRows& rows);
  float (*dot)(const T* a, const T* b, int64_t n);
};

template <typename T>
using AttentionGradientVariantFunction = const AttentionGradientVariant<T>& (*)();

namespace avx512 {
// Needs kAvx512Bf16.
const AttentionGradientVariant<Bf16>& Bf16AttentionGradientVariant();
}  // namespace avx512

// A word is one element, and `pairs` is `products`.
template <typename T>
const AttentionGradientVariant<T>& PortableAttentionGradientVariant();

}  // namespace roofbench::kernels
