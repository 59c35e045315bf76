// SPDX-License-Identifier: Apache-2.0
// The gradients of attention by q, k and v, without a matrix of scores.
//
// The weights p of a block are recomputed from q, k and the logarithm of the sum of each query's exponentials; then
//
//   dv = pᵀ · dy,   ds = p ∘ (dy · vᵀ - rowsum(dy ∘ y)),   dq = ds · k / sqrt(head_dim),   dk = dsᵀ · q /
//   sqrt(head_dim)
//
// (Dao, arXiv:2307.08691, algorithm 2). Blocks are transposed: a row is a key. So the per-query numbers are ordinary
// vectors, and one thread alone computes the gradients of a key.
#pragma once

#include <cstdint>

#include "lib/kernels/operators/attention/attention.h"

namespace roofbench::kernels {

// T: float or Bf16; sums are fp32. Keys that no query sees have the gradient zero, and so has a query that sees none.
template <typename T>
struct AttentionGradient {
  AttentionShape shape;
  // As the forward pass read and wrote them.
  HeadVectors<const T> q;
  HeadVectors<const T> k;
  HeadVectors<const T> v;
  HeadVectors<const T> y;
  const float* log_sum_exp = nullptr;
  HeadVectors<const T> dy;  // as y
  HeadVectors<T> dq;        // as q
  HeadVectors<T> dk;        // as k, summed over the group; dv likewise
  HeadVectors<T> dv;
  // ScratchFloats, on a cache line: q and dy in the orders of the products, dq in fp32; grows linearly with tokens.
  float* scratch = nullptr;
};

// For the number of threads that will run it.
int64_t ScratchFloats(const AttentionGradient<float>& work, int threads);
int64_t ScratchFloats(const AttentionGradient<Bf16>& work, int threads);

void Run(const AttentionGradient<float>& work, const ParallelFor& parallel_for);
void Run(const AttentionGradient<Bf16>& work, const ParallelFor& parallel_for);

}  // namespace roofbench::kernels
