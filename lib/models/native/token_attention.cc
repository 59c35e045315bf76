// SPDX-License-Identifier: Apache-2.0
#include "lib/models/native/token_attention.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/attention/decode_attention.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/rows/norm.h"

namespace roofbench::models {
namespace {

using kernels::Bf16;
using kernels::Range;
using kernels::SerialFor;

template <typename T>
void NormHeads(const TokenAttention<T>& work, const at::Tensor& weight, float* heads, int64_t count) {
  if (!weight.defined()) return;
  Run(kernels::RmsNorm<float>{.x = heads,
                              .y = heads,
                              .weight = Elements<float>(weight),
                              .rows = count,
                              .cols = work.n.dim,
                              .eps = work.epsilon},
      SerialFor());
}

// Turns heads side by side by the angles of `position`.
void Rotate(const RotaryTable& rope, int64_t position, float* heads, int64_t count, int64_t dim) {
  const int64_t angles = position * (dim / 2);
  Run(kernels::Rope<float>{.x = heads,
                           .y = heads,
                           .cosines = Elements<float>(rope.cosines()) + angles,
                           .sines = Elements<float>(rope.sines()) + angles,
                           .rows = count,
                           .positions = 1,
                           .cols = dim},
      SerialFor());
}

// The rows of a head in a cache of C, keys or values.
template <typename C>
struct HeadRows {
  HeadRows(const at::Tensor& all, const at::Tensor& all_scales, int64_t row, int64_t columns)
      : elements(Elements<C>(all) + row * columns), dim(columns) {
    if (all_scales.defined()) scales = Elements<float>(all_scales) + row;
  }

  C* elements;
  float* scales = nullptr;  // of 8 bits
  int64_t dim;

  const C* From(int64_t row) const { return elements + row * dim; }
  const float* ScalesFrom(int64_t row) const { return scales == nullptr ? nullptr : scales + row; }

  void Keep(const float* x, int64_t row) const {
    if constexpr (std::is_same_v<C, int8_t>) {
      scales[row] = RoundTo8Bits(x, dim, elements + row * dim);
    } else {
      std::transform(x, x + dim, elements + row * dim, kernels::Rounded<C>);
    }
  }
};

// C: what the cache is of, T or int8_t. Token `index` of a sequence's, by one head of keys.
template <typename T, typename C>
void RunToken(const TokenAttention<T>& work, std::size_t place, int64_t index, int64_t head, C /*element*/) {
  const DecoderSizes& n = work.n;
  const int64_t dim = n.dim;
  const int64_t group = n.heads / n.kv_heads;
  const int64_t sequence = work.sequences[place];
  const int64_t position = work.cache.lengths[static_cast<std::size_t>(sequence)] + index;
  const int64_t first = work.window > 0 ? std::max<int64_t>(0, position + 1 - work.window) : 0;
  const int64_t token = static_cast<int64_t>(place) * work.each + index;
  float* const q = work.qkv + token * n.qkv() + head * group * dim;
  float* const k = work.qkv + token * n.qkv() + (n.heads + head) * dim;
  const float* const v = k + n.kv_heads * dim;
  NormHeads(work, work.query_norm, q, group);
  NormHeads(work, work.key_norm, k, 1);
  Rotate(work.rope, position, q, group, dim);
  Rotate(work.rope, position, k, 1, dim);
  const auto batch = static_cast<int64_t>(work.cache.lengths.size());
  const int64_t row = ((work.layer * batch + sequence) * n.kv_heads + head) * work.cache.capacity;
  const HeadRows<C> keys(work.cache.keys, work.cache.key_scales, row, dim);
  const HeadRows<C> values(work.cache.values, work.cache.value_scales, row, dim);
  keys.Keep(k, position);
  values.Keep(v, position);
  const int64_t begin = (token * n.kv_heads + head) * group * dim;
  float* const y = work.y + begin;
  kernels::RunHeads(kernels::DecodeAttention<C>{.q = q,
                                                .keys = keys.From(first),
                                                .values = values.From(first),
                                                .key_scales = keys.ScalesFrom(first),
                                                .value_scales = values.ScalesFrom(first),
                                                .y = y,
                                                .heads = 1,
                                                .group = group,
                                                .head_dim = dim,
                                                .length = position + 1 - first,
                                                .capacity = work.cache.capacity,
                                                .scale = work.scale,
                                                .cap = work.cap},
                    {0, 1});
  std::transform(y, y + group * dim, work.rounded + begin, kernels::Rounded<T>);
}

// The tokens of a sequence in turn: each attends to those before it, which are in the cache by then.
template <typename T, typename C>
void RunItemsOf(const TokenAttention<T>& work, Range range, C element) {
  for (int64_t item = range.begin; item < range.end; ++item) {
    const auto place = static_cast<std::size_t>(item / work.n.kv_heads);
    for (int64_t index = 0; index < work.each; ++index) RunToken(work, place, index, item % work.n.kv_heads, element);
  }
}

}  // namespace

template <typename T>
void RunItems(const TokenAttention<T>& work, Range range) {
  if (work.cache.Is8Bits()) {
    RunItemsOf(work, range, int8_t());
  } else {
    RunItemsOf(work, range, T());
  }
}

template void RunItems(const TokenAttention<float>&, Range);
template void RunItems(const TokenAttention<Bf16>&, Range);

}  // namespace roofbench::models
