// SPDX-License-Identifier: Apache-2.0
// y = softmax(q · kᵀ / sqrt(d)) · v (Vaswani et al., arXiv:1706.03762), several query heads per head of keys and values
// (Ainslie et al., arXiv:2305.13245).
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: 4 · d per score for the two products, in `dtype`, and a nominal 5 for its softmax, in fp32. The scaling and
// the mask are not counted. Backward has four products per score, a fifth where scores are recomputed, and a nominal 4
// for its softmax.
struct Attention {
  double batch = 1;
  double heads = 1;     // of queries
  double kv_heads = 1;  // of keys and values
  double queries = 0;
  double keys = 0;
  double head_dim = 0;
  bool causal = false;         // query i of n sees all keys except the last n - 1 - i
  Dtype dtype = Dtype::kFp32;  // kInt8: of keys and values alone, each with a factor of 4 bytes; q and y are in fp32
  double page = 0;             // tokens per block of k and v, located by a table of 4 bytes per block; 0: one array

  // Scores of all heads: of the pairs of a query and a key that it sees, and of the whole square.
  double SeenScores() const;
  double AllScores() const { return batch * heads * queries * keys; }

  // Only q, k, v and y pass through memory, and the masked part is not computed.
  Cost FusedCost() const;
  // The mask covers the whole square, which passes through memory between three operations: components "scores",
  // "softmax" and "weighted_sum". Two squares are live at once.
  Cost NaiveCost() const;
  // The naive one as Inductor of LibTorch 2.11 compiles it for processors, softmax and mask in one loop: with 16 bits,
  // scores, exponentials in fp32 and weights are live at once; with fp32, one of them.
  Cost CompiledCost() const;

  // The gradients of q, k and v from that of y, for dtypes other than kInt8. Fused: from q, k, v and y and a number per
  // query; scores are recomputed, so that every score takes five products.
  Cost FusedBackwardCost() const;
  // From the square of weights that the forward pass kept, through two more: components as forward.
  Cost NaiveBackwardCost() const;

  // Both passes in sequence, in the memory of the one that needs more. Callers add the memory that implementations of
  // the fused one need in addition to operands and results.
  Cost FusedForwardBackwardCost() const;
  Cost NaiveForwardBackwardCost() const;

 private:
  double QueryBytes() const;  // of q; y is as large
  double KeyBytes() const;    // of k with its factors; v is as large
  double TableBytes() const;
  double MaskBytes() const { return causal ? queries * keys : 0; }  // a byte for each pair, hidden or not
  double ProductFlops() const { return 2 * head_dim; }              // of one product, per score
};

}  // namespace roofbench::workload
