// SPDX-License-Identifier: Apache-2.0
// Attention of many queries at once: forward, exact, without a matrix of scores.
//
//   y = softmax(q · kᵀ / sqrt(head_dim)) · v   (Vaswani et al., arXiv:1706.03762), a block of queries against a block
//   of keys at a time with a running maximum (Dao et al., arXiv:2205.14135); with another scale or a bound of the
//   scores for models that have one
#pragma once

#include <cstdint>

#include "lib/kernels/simd/floats.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// Vectors [batch, heads, tokens, head_dim] in memory; the elements of each are contiguous. Strides are in elements.
template <typename T>
struct HeadVectors {
  T* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t token_stride = 0;
  T* At(int64_t batch, int64_t head, int64_t token) const {
    return data + batch * batch_stride + head * head_stride + token * token_stride;
  }
};

// Each `group` adjacent query heads share the keys and values of one head.
struct AttentionShape {
  int64_t batch = 1;
  int64_t heads = 1;  // of keys and values
  int64_t group = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_dim = 0;
  // The last query sees all keys, each earlier one a key fewer; the result of a query that sees none is zero.
  bool causal = false;

  int64_t query_heads() const { return heads * group; }
};

// T: float or Bf16; sums are fp32.
template <typename T>
struct Attention {
  AttentionShape shape;
  HeadVectors<const T> q;  // heads · group heads of `queries` vectors
  HeadVectors<const T> k;  // `heads` heads of `keys` vectors
  HeadVectors<const T> v;
  HeadVectors<T> y;  // as q; not q, k or v
  // [batch, heads · group, queries] if the gradient is wanted later: the logarithm of the sum of a query's
  // exponentials.
  float* log_sum_exp = nullptr;
  float scale = 0;           // of scores; 0: 1 / sqrt(head_dim)
  float cap = 0;             // of scores, as SoftCap's; 0: none
  float* scratch = nullptr;  // ScratchFloats, on a cache line: all keys and values in the order of the products
};

int64_t ScratchFloats(const Attention<float>& work);
int64_t ScratchFloats(const Attention<Bf16>& work);

void Run(const Attention<float>& work, const ParallelFor& parallel_for);
void Run(const Attention<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
