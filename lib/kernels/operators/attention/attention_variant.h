// SPDX-License-Identifier: Apache-2.0
// The interface of attention.cc and attention_gradient.cc to an instruction set.
//
// Operands lie in words of 32 bits: a float, or two bf16 that a dot product takes at once. Products broadcast a word of
// the left operand and take vectors of the right one, so that queries keep their order, and keys and values are packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/simd/floats.h"

namespace roofbench::kernels {

inline constexpr int64_t kPanel = 64;  // columns that a product computes at once: keys, or elements of a head
inline constexpr int64_t kVectorWords = 16;

// c[i][j] = Σ a[i][w] · b[w][j], plus the previous value if `add`, for a variant's rows at once and 16 · `vectors`
// columns (1 to kPanel/16 vectors). Words of `a` beyond `steps`, to a multiple of the variant's steps at once, are zero
// or meet zeros.
template <typename T>
struct Matrix {
  T* data;
  int64_t stride;  // words from a row to the next
};
struct PanelProduct {
  Matrix<const float> a;
  Matrix<const float> b;  // `steps` rows
  int64_t steps;
  Matrix<float> c;
  int64_t vectors;
  bool add;
};

// One query between its two products.
struct ScoreRow {
  float* scores;  // [until] on entry; on return replaced by the weights, as words
  int64_t seen;   // scores that count, 0 to until; the other weights become zero
  int64_t until;
  float scale;     // of scores
  float* sum;      // [width], scaled down as the largest score grows
  int64_t width;   // a multiple of 16
  float* largest;  // so far, of scaled scores
  float* weight;   // sum of weights so far
};

// Some keys, as many as a word has elements, against the queries of a block of the gradient, between the products. Row
// r of an array is `stride` words after row r - 1.
struct GradientRows {
  float* scores;    // on return the weights, as words
  float* products;  // dy · v; on return ds without its scale, as words
  int64_t stride;
  float* pairs;  // on return ds again: a word holds one query's elements of all keys here; `products` if it has one key
  int64_t begin;  // queries that are written, multiples of kPanel
  int64_t until;
  int64_t first[2];          // first query that sees the key of this row, begin to `end`: earlier weights are zero
  int64_t end;               // of queries: weights from here on are zero
  float scale;               // of scores
  const float* log_sum_exp;  // [end]
  const float* corrections;  // [end]: dy · y
};

template <typename T>
struct AttentionVariant {
  int64_t per_word;       // elements
  int64_t rows_at_once;   // of a product; divides kPanel, and is a multiple of the elements of steps_at_once
  int64_t steps_at_once;  // of a product; a power of two
  float log_base;         // natural logarithm of the base of the weights' exponential
  // Converts `count` vectors to rows of words, at most kPanel; writes no words of a row beyond `dim`.
  void (*pack_queries)(const T* from, int64_t stride, int64_t count, int64_t dim, int64_t depth, float* to);
  // Packs up to kPanel keys, zeros for the rest: [depth, kPanel].
  void (*pack_keys)(const T* from, int64_t stride, int64_t count, int64_t dim, int64_t depth, float* to);
  // Packs up to kPanel elements of as many values, zeros for the rest: [kPanel / per_word, columns rounded up to 16].
  void (*pack_values)(const T* from, int64_t stride, int64_t count, int64_t columns, float* to);
  void (*product)(const PanelProduct& panel);
  void (*weigh)(const ScoreRow& row);
  // y = sum · scale.
  void (*finish)(const float* sum, float scale, int64_t dim, T* y);
  void (*weigh_gradient)(const GradientRows& rows);
  float (*dot)(const T* a, const T* b, int64_t n);
  // Called on a thread before its first product and after its last one, if they are not null.
  void (*begin_products)() = nullptr;
  void (*end_products)() = nullptr;
};

// A thread computes products while this lives.
template <typename T>
class ProductsOnThread {
 public:
  explicit ProductsOnThread(const AttentionVariant<T>& variant) : end_(variant.end_products) {
    if (variant.begin_products != nullptr) variant.begin_products();
  }
  ProductsOnThread(const ProductsOnThread&) = delete;
  ProductsOnThread& operator=(const ProductsOnThread&) = delete;
  ~ProductsOnThread() {
    if (end_ != nullptr) end_();
  }

 private:
  void (*end_)();
};

namespace avx512 {
const AttentionVariant<Bf16>& Bf16AttentionVariant();     // needs kAvx512Bf16
const AttentionVariant<Bf16>& AmxBf16AttentionVariant();  // needs kAmxBf16 and kAvx512Bf16
}  // namespace avx512

// The best variant for this processor. T: float or Bf16.
template <typename T>
const AttentionVariant<T>& BestAttentionVariant();

// ScratchFloats and Run with a given variant.
template <typename T>
int64_t ScratchFloatsWith(const AttentionVariant<T>& variant, const Attention<T>& work);
template <typename T>
int64_t ScratchFloatsWith(const AttentionVariant<T>& variant, const AttentionGradient<T>& work, int threads);
template <typename T>
void RunWith(const AttentionVariant<T>& variant, const Attention<T>& work, const ParallelFor& parallel_for);
template <typename T>
void RunWith(const AttentionVariant<T>& variant, const AttentionGradient<T>& work, const ParallelFor& parallel_for);

// Vectors of heads in the two orders that a product takes its right operand in, a panel of kPanel tokens at a time: as
// keys, each one column of the operand, and as values, of which each row of the operand has one or two.

// Their layout: as keys those of all heads, then as values those of all heads.
struct PackedHeads {
  template <typename T>
  PackedHeads(const AttentionVariant<T>& variant, int64_t number_of_heads, int64_t tokens, int64_t head_dim)
      : per_word(variant.per_word),
        panels(CeilDiv(tokens, kPanel)),
        depth(RoundUp(CeilDiv(head_dim, per_word), variant.steps_at_once)),
        width(RoundUp(head_dim, kVectorWords)),
        key_panel(depth * kPanel),
        value_words(panels * kPanel / per_word),
        heads(number_of_heads) {}

  int64_t Floats() const { return heads * (panels * key_panel + value_words * width); }
  int64_t Keys(int64_t head, int64_t panel) const { return (head * panels + panel) * key_panel; }
  // The row of token `first` in the columns from `column` on.
  int64_t Values(int64_t head, int64_t column, int64_t first) const {
    const int64_t of_head = heads * panels * key_panel + head * value_words * width;
    return of_head + column * value_words + first / per_word * std::min(kPanel, width - column);
  }

  int64_t per_word;
  int64_t panels;  // of a head's tokens
  int64_t depth;   // words of a vector, and zeros up to a variant's steps at once
  int64_t width;   // of sums
  int64_t key_panel;
  int64_t value_words;  // rows of a head's values
  int64_t heads;
};

// Packs one panel: the vectors of `keys` at (batch, head) as keys, those of `values` as values.
template <typename T>
void PackPanel(const AttentionVariant<T>& variant, const PackedHeads& packed, int64_t head, int64_t panel,
               int64_t tokens, int64_t head_dim, const HeadVectors<const T>& keys, const HeadVectors<const T>& values,
               int64_t heads_a_batch, float* to) {
  const int64_t first = panel * kPanel;
  const int64_t count = std::min(kPanel, tokens - first);
  const T* const key = keys.At(head / heads_a_batch, head % heads_a_batch, first);
  const T* const value = values.At(head / heads_a_batch, head % heads_a_batch, first);
  variant.pack_keys(key, keys.token_stride, count, head_dim, packed.depth, to + packed.Keys(head, panel));
  for (int64_t column = 0; column < head_dim; column += kPanel) {
    variant.pack_values(value + column, values.token_stride, count, std::min(kPanel, head_dim - column),
                        to + packed.Values(head, column, first));
  }
}

}  // namespace roofbench::kernels
