// SPDX-License-Identifier: Apache-2.0
// y = softmax(q · kᵀ / sqrt(d)) · v (Vaswani et al., arXiv:1706.03762), some query heads to a head of keys and values
// (Ainslie et al., arXiv:2305.13245).
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: 4 · d a score for the two products, in `dtype`, and a nominal 5 for its softmax, in fp32. The scaling and the
// mask are not counted. Backward there are four products a score, and a fifth where scores are made again, and a
// nominal 4 for its softmax.
struct Attention {
  double batch = 1;
  double heads = 1;     // of queries
  double kv_heads = 1;  // of keys and values
  double queries = 0;
  double keys = 0;
  double head_dim = 0;
  bool causal = false;         // query i of n sees the keys but the last n - 1 - i
  Dtype dtype = Dtype::kFp32;  // kInt8: of keys and values alone, each with a factor of 4 bytes; q and y are in fp32
  double page = 0;             // tokens of a block of k and v, which a table of 4 bytes a block finds; 0: one array

  // Scores of all heads: of the pairs of a query and a key that it sees, and of the whole square.
  double SeenScores() const;
  double AllScores() const;

  // Where nothing but q, k, v and y meets memory, and what the mask hides is not computed.
  Cost FusedCost() const;
  // Where the mask is laid over the whole square, which goes to memory between three operations: components "scores",
  // "softmax" and "weighted_sum". Two squares are alive at once.
  Cost NaiveCost() const;
  // The naive one as Inductor of LibTorch 2.11 compiles it for processors, softmax and mask in one loop: of 16 bits,
  // scores, exponentials in fp32 and weights are alive at once, of fp32 one of them.
  Cost CompiledCost() const;

  // The gradients of q, k and v from that of y, of dtypes other than kInt8. Fused: from q, k, v and y and a number a
  // query, and scores are made again, so that five products are computed of every score.
  Cost FusedBackwardCost() const;
  // From the square of weights that the forward pass left, through two more: components as forward.
  Cost NaiveBackwardCost() const;

  // One after the other, in the memory of the one that needs more. What implementations of the fused one need beside
  // operands and results is theirs to add.
  Cost FusedForwardBackwardCost() const;
  Cost NaiveForwardBackwardCost() const;

 private:
  double QueryBytes() const;  // of q; y is as large
  double KeyBytes() const;    // of k with its factors; v is as large
  double TableBytes() const;
  double MaskBytes() const;     // a byte of each pair that it hides or does not
  double ProductFlops() const;  // of one product, a score
};

}  // namespace roofbench::workload
