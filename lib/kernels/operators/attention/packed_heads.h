// SPDX-License-Identifier: Apache-2.0
// Vectors of heads in the two orders that a product takes its right operand in, a panel of kPanel tokens at a time: as
// keys, of which each column of the operand is one, and as values, of which each row of it is one or two.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/kernels/operators/attention/attention.h"
#include "lib/kernels/operators/attention/attention_variant.h"

namespace roofbench::kernels {

constexpr int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t RoundUp(int64_t n, int64_t to) { return CeilDiv(n, to) * to; }

// Where they lie: as keys those of all heads, then as values those of all heads.
struct PackedHeads {
  PackedHeads(int64_t number_of_heads, int64_t tokens, int64_t head_dim, int64_t elements_per_word)
      : per_word(elements_per_word),
        panels(CeilDiv(tokens, kPanel)),
        depth(CeilDiv(head_dim, per_word)),
        width(RoundUp(head_dim, kVectorWords)),
        key_panel(depth * kPanel),
        value_words(panels * kPanel / per_word),
        heads(number_of_heads) {}

  int64_t Floats() const { return heads * (panels * key_panel + value_words * width); }
  int64_t Keys(int64_t head, int64_t panel) const { return (head * panels + panel) * key_panel; }
  // Of the columns from `column` on, the row of token `first`.
  int64_t Values(int64_t head, int64_t column, int64_t first) const {
    const int64_t of_head = heads * panels * key_panel + head * value_words * width;
    return of_head + column * value_words + first / per_word * std::min(kPanel, width - column);
  }

  int64_t per_word;
  int64_t panels;  // of a head's tokens
  int64_t depth;   // words of a vector
  int64_t width;   // of sums
  int64_t key_panel;
  int64_t value_words;  // rows of a head's values
  int64_t heads;
};

// One panel: the vectors that `keys` has at (batch, head) as keys, those of `values` as values.
template <typename T>
void PackPanel(const AttentionVariant<T>& variant, const PackedHeads& packed, int64_t head, int64_t panel,
               int64_t tokens, int64_t head_dim, const HeadVectors<const T>& keys, const HeadVectors<const T>& values,
               int64_t heads_a_batch, float* to) {
  const int64_t first = panel * kPanel;
  const int64_t count = std::min(kPanel, tokens - first);
  const T* const key = keys.At(head / heads_a_batch, head % heads_a_batch, first);
  const T* const value = values.At(head / heads_a_batch, head % heads_a_batch, first);
  variant.pack_keys(key, keys.token_stride, count, head_dim, to + packed.Keys(head, panel));
  for (int64_t column = 0; column < head_dim; column += kPanel) {
    variant.pack_values(value + column, values.token_stride, count, std::min(kPanel, head_dim - column),
                        to + packed.Values(head, column, first));
  }
}

}  // namespace roofbench::kernels
