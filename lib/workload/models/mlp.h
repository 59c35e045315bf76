// SPDX-License-Identifier: Apache-2.0
// A stack of `layers` x (Linear d -> d with bias, GELU), and its training step without an optimizer.
#pragma once

#include <vector>

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"
#include "lib/workload/models/sharded_memory.h"

namespace roofbench::workload {

struct Mlp {
  double batch = 0;  // rows of the input
  double width = 0;  // d: features in and out of every layer
  double layers = 0;
  Dtype compute = Dtype::kFp32;  // precision of the products (bf16 under autocast; parameters stay fp32)
  // Ranks that divide the features between each two layers, in fp32. It changes the resident bytes alone, which are
  // then those of a rank.
  double parts = 1;

  // layers · (d² + d)
  double Parameters() const;

  // Each layer: the product x·Wᵀ + b and the GELU. Under autocast the fp32 weights are read and written again as bf16.
  workload::Cost ForwardCost() const;

  // Each layer: GELU's gradient, the bias gradient, dX and dW (no dX for the first layer: its input has no gradient),
  // and the first write of the gradients. Under autocast the gradients are fp32 too.
  workload::Cost BackwardCost() const;

  // Forward and backward `steps` times, with gradients set to none between steps: resident memory is that of one.
  workload::Cost TrainingCost(double steps) const;

  // The peak of a step: parameters and, from the first layer of backward to the last, ever more gradients and ever
  // fewer of the tensors that autograd keeps, the input and the pre-activation of every layer.
  double ResidentBytes() const;
  // The layers. `computes` is that of a step in fp32.
  std::vector<StepUnit> Units() const;

 private:
  // Bytes that a rank has of it; `in` is 0 for the first layer, whose input takes no gradient.
  struct Layer {
    double parameters, in, out;
  };
  std::vector<Layer> Layers() const;
};

// gpt_fast's "mlp_layer_norm_gelu": Linear(d → hidden), LayerNorm, [GELU,] Linear(hidden → d), LayerNorm. The published
// version has no GELU and one row, so that it is bound by the bytes of its weights and not, as the name of its metric
// suggests, by arithmetic.

// Linears have a bias; all parameters are stored in `dtype`.
struct MlpLayerNorm {
  double batch = 1;  // rows of the input
  double width = 0;  // d
  double hidden = 0;
  bool gelu = false;
  Dtype dtype = Dtype::kBf16;

  // 2·d·hidden weights, and for each linear its bias and its norm's weight and bias.
  double Parameters() const;
  Cost ForwardCost() const;
};

}  // namespace roofbench::workload
